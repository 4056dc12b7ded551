"""Tables of the demo: records received against records sent, the cost of the failure, and the throughput."""

from collections.abc import Mapping

from demo_failure import Failure
from demo_stream import GROUP, Ledger
from rich.console import Console
from rich.table import Table


def show_proof(sent: Ledger, received: Ledger, committed: int, expected: int, console: Console) -> bool:
    table = Table(title="Records received against records sent", title_justify="left")
    table.add_column("carrier")
    for heading in ("sent", "received", "checksum sent", "checksum received"):
        table.add_column(heading, justify="right")
    table.add_column("same, in order")
    all_same = sent.counts.keys() == received.counts.keys()
    for carrier in sorted(sent.counts.keys() | received.counts.keys()):
        sent_digest = sent.digests[carrier].hexdigest()[:12] if carrier in sent.digests else "-"
        received_digest = received.digests[carrier].hexdigest()[:12] if carrier in received.digests else "-"
        counts = sent.counts.get(carrier, 0), received.counts.get(carrier, 0)
        same = sent_digest == received_digest and counts[0] == counts[1]
        all_same = all_same and same
        table.add_row(
            carrier,
            f"{counts[0]:,}",
            f"{counts[1]:,}",
            sent_digest,
            received_digest,
            "[green]yes" if same else "[red]NO",
        )
    complete = sent.total == received.total == committed
    all_same = all_same and complete and sent.total > 0
    result = "[green]yes" if all_same else "[red]NO"
    table.add_section()
    table.add_row("all", f"{sent.total:,}", f"{received.total:,}", "", "", result)
    console.print(table, soft_wrap=False)
    console.print(f"The group {GROUP!r} has committed {committed:,} records as read.")
    if sent.total != expected:
        console.print(
            f"[yellow]The package holds {sent.total:,} flights, not the {expected:,} that were expected."
        )
    return all_same


def show_failure(failure: Failure, leaders: Mapping[int, int], console: Console) -> None:
    waits_s = failure.acknowledgements.longest_waits_s
    table = Table(title=f"Node {failure.victim} was killed in the middle", title_justify="left")
    table.add_column("partition")
    for heading in ("led by", "now by", "longest time without an acknowledgement"):
        table.add_column(heading, justify="right")
    for partition, leader in sorted(failure.leaders_before.items()):
        wait = f"{waits_s[partition]:.2f} s" if partition in waits_s else "-"
        is_hit = "[red]" if leader == failure.victim else ""
        table.add_row(str(partition), f"{is_hit}{leader}", str(leaders[partition]), wait)
    table.add_section()
    lost_s = [wait for index, wait in waits_s.items() if failure.leaders_before[index] == failure.victim]
    unavailable = f"unavailable for {max(lost_s):.2f} s" if lost_s else "all was acknowledged before the kill"
    table.add_row("all", "", "", f"[bold]{unavailable}")
    console.print(table)
    console.print(
        f"Node {failure.victim} was started again, served after {failure.started_again_s:.2f} s,"
        f" and {failure.in_sync_s:.2f} s after the stream all replicas were in sync."
    )


def show_figures(sent: Ledger, seconds: float, console: Console) -> None:
    megabytes = sent.size_bytes / 1e6
    console.print(
        f"{sent.total:,} flights, {megabytes:.1f} MB of JSON, sent and received in {seconds:.1f} s:"
        f" [bold]{megabytes / seconds:.1f} MB/s[/], {sent.total / seconds:,.0f} records/s."
    )
