"""Scenarios of whole brokers: each must keep all that was acknowledged, and end with a cluster at rest."""

import pytest

from tests.simulation import (
    acl_stories,
    balance_stories,
    controller_stories,
    group_stories,
    marker_stories,
    scale_stories,
    share_state_stories,
    share_stories,
    stories,
    txn_stories,
    upgrade_stories,
)
from tests.simulation.simulation import Options, Simulation
from tests.thorough import some_of

pytestmark = pytest.mark.slow
BY_SEED = pytest.mark.parametrize("seed", some_of(range(2), of_each_run=1))


@BY_SEED
@pytest.mark.parametrize(
    "story",
    [
        stories.a_leader_is_cut_off_for_a_moment,
        stories.all_are_killed_and_two_of_three_return,
        stories.the_leader_loses_its_power_when_the_others_die,
        stories.the_last_in_sync_loses_its_power,
        stories.a_change_of_the_isr_comes_a_second_time,
        stories.a_follower_hears_late_of_two_elections,
        stories.a_leader_dies_when_it_has_deleted_records,
        stories.a_bit_flips_on_a_replica,
        stories.a_bit_flips_on_a_replica_and_another_node_dies,
        stories.a_bit_flips_on_a_replica_that_is_made_to_lead,
        stories.a_leader_loses_its_power_while_a_restarted_follower_waits_for_its_answer,
    ],
    ids=lambda story: story.__name__,
)
def test_three_nodes(story: stories.Story, seed: int) -> None:
    Simulation(seed, Options()).play(story)


@BY_SEED
@pytest.mark.parametrize(
    "story",
    [
        stories.an_eligible_replica_leads_when_nobody_is_in_sync,
        stories.an_eligible_replica_loses_its_power,
    ],
    ids=lambda story: story.__name__,
)
def test_five_nodes_with_three_voters(story: stories.Story, seed: int) -> None:
    Simulation(seed, Options(nodes=5)).play(story)


@BY_SEED
def test_a_disk_fails_and_the_controller_is_out_of_reach(seed: int) -> None:
    story = stories.a_disk_fails_and_the_controller_is_out_of_reach
    Simulation(seed, Options(settings=stories.TWO_DISKS)).play(story)


@BY_SEED
def test_a_replica_without_acknowledged_records_does_not_lead(seed: int) -> None:
    story = stories.a_replica_that_others_went_on_without_does_not_lead
    Simulation(seed, Options(nodes=5, in_sync=1)).play(story)


@pytest.mark.parametrize("seed", [16, 19])
def test_the_last_replica_in_sync_does_not_lead_when_it_learns_that_it_is_the_last(seed: int) -> None:
    """In these seeds the quorum is lost, and the replica that returns with it was removed from the ISR."""
    Simulation(seed, Options()).play(stories.the_last_in_sync_loses_its_power)


@pytest.mark.parametrize("nodes", [1, 3])
def test_a_cluster_that_flushes_each_record_survives_a_power_failure_of_all_nodes(nodes: int) -> None:
    for seed in range(4 - nodes):
        options = Options(nodes=nodes, settings=stories.DURABLE)
        Simulation(seed, options).play(stories.the_power_of_all_fails)


@BY_SEED
def test_a_follower_dies_when_its_leader_has_lost_its_power(seed: int) -> None:
    Simulation(seed, Options(replicas=2)).play(stories.a_follower_dies_when_its_leader_has_lost_its_power)


@BY_SEED
@pytest.mark.parametrize("story", group_stories.STORIES, ids=lambda story: story.__name__)
def test_groups_survive_their_coordinator(story: stories.Story, seed: int) -> None:
    Simulation(seed, Options(consumers=4)).play(story)


@BY_SEED
@pytest.mark.parametrize("nodes", [3, 4])
def test_denials_hold_under_faults(nodes: int, seed: int) -> None:
    options = Options(nodes=nodes, settings=acl_stories.SETTINGS)
    Simulation(seed, options).play(acl_stories.denials_hold_whatever_fails)


@BY_SEED
def test_no_client_is_served_by_old_acls_for_long(seed: int) -> None:
    options = Options(kinds=acl_stories.CUTS, settings=acl_stories.SETTINGS)
    Simulation(seed, options).play(acl_stories.old_acls_serve_nobody_for_long)


def test_a_broker_that_lost_its_disk_copies_its_replicas_again() -> None:
    Simulation(3, Options(nodes=4)).play(stories.a_broker_loses_its_disk)


@BY_SEED
def test_an_older_cluster_is_upgraded_to_transactions(seed: int) -> None:
    simulation = Simulation(seed, Options(settings=upgrade_stories.SETTINGS))
    for node in simulation.world.nodes:
        node.release = upgrade_stories.older
    with upgrade_stories.founded_by_the_older_release():
        simulation.play(upgrade_stories.nodes_are_replaced_one_by_one)


@BY_SEED
@pytest.mark.parametrize("story", marker_stories.STORIES, ids=lambda story: story.__name__)
def test_a_late_copy_changes_nothing(story: stories.Story, seed: int) -> None:
    Simulation(seed, Options(settings=marker_stories.SETTINGS)).play(story)


@BY_SEED
@pytest.mark.parametrize("story", txn_stories.STORIES, ids=lambda story: story.__name__)
def test_transactions_survive_their_coordinators_and_leaders(story: stories.Story, seed: int) -> None:
    Simulation(seed, Options(settings=txn_stories.SETTINGS)).play(story)


@BY_SEED
@pytest.mark.parametrize("story", share_state_stories.STORIES, ids=lambda story: story.__name__)
def test_states_of_share_partitions_survive_their_coordinators(story: stories.Story, seed: int) -> None:
    Simulation(seed, Options(settings=share_state_stories.SETTINGS)).play(story)


@BY_SEED
@pytest.mark.parametrize("story", share_stories.STORIES, ids=lambda story: story.__name__)
def test_share_groups_keep_their_promises(story: stories.Story, seed: int) -> None:
    Simulation(seed, share_stories.OPTIONS).play(story)


@BY_SEED
@pytest.mark.parametrize("story", balance_stories.STORIES, ids=lambda story: story.__name__)
def test_a_cluster_balances_itself_while_nodes_fail(story: stories.Story, seed: int) -> None:
    Simulation(seed, balance_stories.OPTIONS).play(story)


@BY_SEED
def test_a_balance_is_cancelled(seed: int) -> None:
    Simulation(seed, balance_stories.HALTED).play(balance_stories.a_balance_is_cancelled)


@BY_SEED
def test_a_busy_broker_gets_no_more_leaders(seed: int) -> None:
    Simulation(seed, balance_stories.BUSY).play(balance_stories.a_broker_falls_beside_a_busy_one)


@BY_SEED
def test_brokers_do_not_notice_that_a_separate_controller_fails(seed: int) -> None:
    Simulation(seed, controller_stories.OPTIONS).play(controller_stories.the_active_controller_fails)


@BY_SEED
def test_separate_controllers_survive_faults_of_all_kinds(seed: int) -> None:
    Simulation(seed, controller_stories.FAULTS).play(controller_stories.controllers_and_brokers_fail)


@BY_SEED
def test_a_share_group_survives_a_lost_disk(seed: int) -> None:
    Simulation(seed, Options(nodes=4, workers=4)).play(share_stories.a_node_loses_its_disk)


@pytest.mark.parametrize("nodes", some_of([10, 100], of_each_run=1))
@pytest.mark.parametrize("story", scale_stories.STORIES, ids=lambda story: story.__name__)
def test_many_nodes_lose_one(story: stories.Story, nodes: int) -> None:
    Simulation(0, Options(nodes=nodes)).play(story)
