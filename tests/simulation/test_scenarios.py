"""Scenarios of whole brokers: each must keep all that was acknowledged, and end with a cluster at rest."""

import pytest

from tests.simulation import (
    acl_scenarios,
    balance_scenarios,
    controller_scenarios,
    group_scenarios,
    marker_scenarios,
    scale_scenarios,
    scenarios,
    share_scenarios,
    share_state_scenarios,
    txn_scenarios,
    upgrade_scenarios,
)
from tests.simulation.simulation import Options, Simulation
from tests.thorough import some_of

pytestmark = pytest.mark.slow
BY_SEED = pytest.mark.parametrize("seed", some_of(range(2), of_each_run=1))


@BY_SEED
@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.a_leader_is_fenced_for_a_moment,
        scenarios.all_are_killed_and_two_of_three_return,
        scenarios.the_leader_loses_its_power_when_the_others_die,
        scenarios.the_last_replica_in_sync_loses_its_power,
        scenarios.an_old_alter_partition_is_sent_again,
        scenarios.a_follower_learns_late_of_two_elections,
        scenarios.a_leader_dies_when_it_has_deleted_records,
        scenarios.a_bit_flips_on_a_replica,
        scenarios.a_bit_flips_on_a_replica_and_another_node_dies,
        scenarios.a_bit_flips_on_a_replica_that_is_made_to_lead,
        scenarios.a_leader_loses_its_power_while_a_restarted_follower_waits_for_its_answer,
    ],
    ids=lambda scenario: scenario.__name__,
)
def test_three_nodes_keep_what_they_acknowledged(scenario: scenarios.Scenario, seed: int) -> None:
    Simulation(seed, Options()).play(scenario)


@BY_SEED
@pytest.mark.parametrize(
    "scenario",
    [
        scenarios.an_eligible_replica_leads_when_no_replica_is_in_sync,
        scenarios.an_eligible_replica_loses_its_power,
    ],
    ids=lambda scenario: scenario.__name__,
)
def test_five_nodes_with_three_voters_keep_what_they_acknowledged(
    scenario: scenarios.Scenario, seed: int
) -> None:
    Simulation(seed, Options(nodes=5)).play(scenario)


@BY_SEED
def test_a_node_whose_disk_fails_ends_if_the_controller_is_out_of_reach(seed: int) -> None:
    scenario = scenarios.a_disk_fails_and_the_controller_is_out_of_reach
    Simulation(seed, Options(settings=scenarios.TWO_DISKS)).play(scenario)


@BY_SEED
def test_a_replica_without_acknowledged_records_does_not_lead(seed: int) -> None:
    scenario = scenarios.a_replica_without_acknowledged_records_does_not_lead
    Simulation(seed, Options(nodes=5, in_sync=1)).play(scenario)


@pytest.mark.parametrize("seed", [16, 19])
def test_the_last_replica_in_sync_does_not_lead_when_it_learns_that_it_is_the_last(seed: int) -> None:
    """In these seeds the quorum is lost, and the replica that returns with it was removed from the ISR."""
    Simulation(seed, Options()).play(scenarios.the_last_replica_in_sync_loses_its_power)


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_cluster_that_flushes_each_record_survives_a_power_failure_of_all_nodes(nodes: int) -> None:
    for seed in range(4 - nodes):
        options = Options(nodes=nodes, settings=scenarios.DURABLE)
        Simulation(seed, options).play(scenarios.the_power_of_all_fails)


@BY_SEED
def test_a_follower_that_dies_after_its_leader_lost_its_power_has_the_records(seed: int) -> None:
    Simulation(seed, Options(replicas=2)).play(scenarios.a_follower_dies_when_its_leader_has_lost_its_power)


@BY_SEED
@pytest.mark.parametrize("scenario", group_scenarios.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_groups_survive_their_coordinator(scenario: scenarios.Scenario, seed: int) -> None:
    Simulation(seed, Options(consumers=4)).play(scenario)


@BY_SEED
@pytest.mark.parametrize("nodes", [3, 4])
def test_denials_hold_under_faults(nodes: int, seed: int) -> None:
    options = Options(nodes=nodes, settings=acl_scenarios.SETTINGS)
    Simulation(seed, options).play(acl_scenarios.denials_hold_under_faults)


@BY_SEED
def test_no_client_is_served_by_old_acls_for_long(seed: int) -> None:
    options = Options(kinds=acl_scenarios.CUTS, settings=acl_scenarios.SETTINGS)
    Simulation(seed, options).play(acl_scenarios.no_client_is_served_by_old_acls_for_long)


def test_a_broker_that_lost_its_disk_copies_its_replicas_again() -> None:
    Simulation(3, Options(nodes=4)).play(scenarios.a_broker_loses_its_disk)


@BY_SEED
def test_an_older_cluster_is_upgraded_to_transactions(seed: int) -> None:
    simulation = Simulation(seed, Options(settings=upgrade_scenarios.SETTINGS))
    for node in simulation.world.nodes:
        node.release = upgrade_scenarios.older_release
    with upgrade_scenarios.created_by_the_older_release():
        simulation.play(upgrade_scenarios.nodes_are_replaced_one_by_one)


@BY_SEED
@pytest.mark.parametrize("scenario", marker_scenarios.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_late_copy_of_a_marker_or_an_offset_commit_changes_nothing(
    scenario: scenarios.Scenario, seed: int
) -> None:
    Simulation(seed, Options(settings=marker_scenarios.SETTINGS)).play(scenario)


@BY_SEED
@pytest.mark.parametrize("scenario", txn_scenarios.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_transactions_survive_their_coordinators_and_leaders(scenario: scenarios.Scenario, seed: int) -> None:
    Simulation(seed, Options(settings=txn_scenarios.SETTINGS)).play(scenario)


@BY_SEED
@pytest.mark.parametrize("scenario", share_state_scenarios.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_states_of_share_partitions_survive_their_coordinators(
    scenario: scenarios.Scenario, seed: int
) -> None:
    Simulation(seed, Options(settings=share_state_scenarios.SETTINGS)).play(scenario)


@BY_SEED
@pytest.mark.parametrize("scenario", share_scenarios.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_share_groups_write_no_late_acknowledgement_and_deliver_no_deleted_record(
    scenario: scenarios.Scenario, seed: int
) -> None:
    Simulation(seed, share_scenarios.OPTIONS).play(scenario)


@BY_SEED
@pytest.mark.parametrize("scenario", balance_scenarios.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_a_cluster_balances_itself_while_nodes_fail(scenario: scenarios.Scenario, seed: int) -> None:
    Simulation(seed, balance_scenarios.OPTIONS).play(scenario)


@BY_SEED
def test_a_cancelled_balance_leaves_the_replicas_where_they_were(seed: int) -> None:
    Simulation(seed, balance_scenarios.HALTED).play(balance_scenarios.a_balance_is_cancelled)


@BY_SEED
def test_a_busy_broker_gets_no_more_leaders(seed: int) -> None:
    Simulation(seed, balance_scenarios.BUSY).play(balance_scenarios.a_broker_fails_next_to_a_busy_one)


@BY_SEED
def test_brokers_do_not_notice_that_a_separate_controller_fails(seed: int) -> None:
    Simulation(seed, controller_scenarios.OPTIONS).play(controller_scenarios.the_active_controller_fails)


@BY_SEED
def test_separate_controllers_survive_faults_of_all_kinds(seed: int) -> None:
    Simulation(seed, controller_scenarios.FAULTS).play(controller_scenarios.controllers_and_brokers_fail)


@BY_SEED
def test_a_share_group_survives_a_lost_disk(seed: int) -> None:
    Simulation(seed, Options(nodes=4, workers=4)).play(share_scenarios.a_node_loses_its_disk)


@pytest.mark.parametrize("nodes", some_of([10, 100], of_each_run=1))
@pytest.mark.parametrize("scenario", scale_scenarios.SCENARIOS, ids=lambda scenario: scenario.__name__)
def test_many_nodes_soon_know_the_new_leaders_when_one_fails(
    scenario: scenarios.Scenario, nodes: int
) -> None:
    Simulation(0, Options(nodes=nodes)).play(scenario)
