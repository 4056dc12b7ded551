"""Streams every flight that left New York in 2013 through a cluster, and proves that all arrive unchanged.

The cluster has three nodes in three processes; the topic has three replicas, and at least two must have a
record before it is acknowledged. In the middle of the stream the node that leads the busiest partition is
killed with SIGKILL, and started again. Each flight is a JSON record, keyed by carrier. The producer and the
consumer are confluent-kafka, unmodified. The parts are `demo_flights`, `demo_cluster`, `demo_access`,
`demo_stream`, `demo_failure` and `demo_proof`; `demo_pipeline` and `demo_chart` are about the Spark job over
the flights.
"""

import argparse
import sys
import time
from pathlib import Path

import demo_chart
import demo_pipeline
from confluent_kafka import KafkaException
from demo_access import Access
from demo_cluster import NODES, OTTLA, create_topic, make_failure, own_directory, start_cluster, stop_cluster
from demo_error import DemoError
from demo_failure import Failure
from demo_flights import FLIGHTS, TOPIC, data_folder, read_flights
from demo_proof import show_failure, show_figures, show_proof
from demo_stream import fill, stream, sum_of_committed_offsets
from ending import children_end_too
from rich.console import Console

ROOT = Path(__file__).resolve().parent.parent

LEAST_FLIGHTS = 1_000  # enough for a failure in the middle of the stream

console = Console()


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument(
        "--flights", type=number_of_flights, default=FLIGHTS, metavar="N", help="use only the first N flights"
    )
    parser.add_argument("--partitions", type=int, default=6)
    parser.add_argument("--compression", choices=["none", "gzip", "snappy", "lz4", "zstd"], default="lz4")
    parser.add_argument(
        "--data", type=Path, default=ROOT / "demo-data", help="the directory of the cluster's data"
    )
    parser.add_argument("--out", type=Path, default=ROOT / "ottla-demo", help="the folder of the chart")
    parser.add_argument(
        "--secure", action="store_true", help="use TLS, logins and ACLs, as ottla cluster up --secure"
    )
    spark = parser.add_mutually_exclusive_group()
    spark.add_argument("--no-spark", action="store_true", help="leave out the Spark job")
    spark.add_argument("--only-spark", action="store_true", help="only fill the topic and run the Spark job")
    arguments = parser.parse_args()
    try:
        return run(arguments)
    except (DemoError, KafkaException) as error:
        console.print(f"[red]The demo failed:[/] {error}")
        return 1
    except KeyboardInterrupt:
        console.print("Interrupted.")
        return 130


def number_of_flights(text: str) -> int:
    number = int(text)
    if not LEAST_FLIGHTS <= number <= FLIGHTS:
        raise argparse.ArgumentTypeError(f"it must be between {LEAST_FLIGHTS} and {FLIGHTS}")
    return number


def run(arguments: argparse.Namespace) -> int:
    data: Path = arguments.data.resolve()
    with own_directory(data):
        return run_in(data, arguments)


def run_in(data: Path, arguments: argparse.Namespace) -> int:
    with console.status("Reading the flights of 2013"):
        flights = read_flights(arguments.flights)
    started_s = time.monotonic()
    cluster, access = start_cluster(data, is_secure=arguments.secure)
    try:
        start_s = time.monotonic() - started_s
        console.print(
            f"{NODES} nodes serve at [bold]{access.bootstrap}[/], {start_s:.2f} s after they were started"
            f"{', over TLS with a login' if arguments.secure else ''}."
        )
        create_topic(access, arguments.partitions)
        if arguments.only_spark:
            with console.status("Sending the flights"):
                fill(access, flights, arguments.compression)
            is_proven = True
        else:
            is_proven = stream_and_prove(access, data, flights, arguments)
        if not arguments.no_spark:
            is_proven = show_pipeline(access, data, arguments) and is_proven
    finally:
        exit_code = stop_cluster(cluster)
    console.print(f"The cluster stopped with exit code {exit_code}.")
    show_files(data, arguments)
    return 0 if is_proven and exit_code == 0 else 1


def stream_and_prove(
    access: Access, data: Path, flights: list[tuple[str, bytes]], arguments: argparse.Namespace
) -> bool:
    """Stream the flights while a node is killed; return True if all that was sent was received, in order."""
    failure = make_failure(data, access, TOPIC)
    sent, received, seconds = stream(access, flights, arguments.compression, failure, console)
    committed = sum_of_committed_offsets(access, arguments.partitions)
    failure.wait_until_in_sync()
    if failure.problem:
        raise DemoError(failure.problem)
    is_proven = show_proof(sent, received, committed, arguments.flights, console)
    show_failure(failure, failure.leaders(), console)
    show_figures(sent, seconds, console)
    return is_proven


def show_pipeline(access: Access, data: Path, arguments: argparse.Namespace) -> bool:
    """Run the Spark job and check it; return True if its result is right.

    Without Spark, return True unless only the Spark job was wanted.
    """
    problem = demo_pipeline.missing()
    if problem:
        console.print(f"[yellow]The Spark job is left out:[/] {problem}")
        return not arguments.only_spark
    out: Path = arguments.out.resolve()
    folder = data / "spark"
    folder.mkdir()

    def failure_of(topic: str) -> Failure:
        return make_failure(data, access, topic)

    outcome = demo_pipeline.run(access, data_folder(), arguments.flights, folder, failure_of, console)
    names = demo_pipeline.carriers_of(data_folder())
    demo_chart.show(outcome.found, names, console)
    departures = int(outcome.found["count"].sum())
    title = f"New York 2013: delays of {departures:,} departures, counted by Spark exactly once"
    demo_chart.draw(outcome.found, names, title, out / "delays.png")
    demo_pipeline.show(outcome, console)
    console.print(f"The chart is in [bold]{shown(out / 'delays.png')}[/].")
    return outcome.is_same


def show_files(data: Path, arguments: argparse.Namespace) -> None:
    """Print the place of the data, and commands to work with them."""
    cluster = shown(data / "cluster")
    logs = sorted((data / "cluster").rglob("*.log"))
    on_disk = sum(path.stat().st_size for path in logs)
    console.print(f"The data is in [bold]{cluster}[/]: {on_disk / 1e6:.1f} MB of logs in Kafka's own format.")
    ottla = shown(OTTLA)
    secure, config = "", ""
    if arguments.secure:
        secure = " --secure"
        config = f" -b localhost:9092 --command-config {cluster}/secure/client.properties"
    first = next(
        (path for path in logs if path.parent.name.startswith(f"{TOPIC}-") and path.stat().st_size), None
    )
    if first is not None:
        console.print(f"  look at a log     {ottla} log dump {shown(first)}", soft_wrap=True)
    console.print(
        f"  serve it again    {ottla} cluster up{secure} --nodes {NODES} --base-port 9092 --data {cluster}",
        soft_wrap=True,
    )
    console.print(
        f"  and read it       {ottla} consume {TOPIC} --from beginning -n 3{config}", soft_wrap=True
    )


def shown(path: Path) -> str:
    """Return a path as text, relative to the checkout if it lies there."""
    return str(path.relative_to(ROOT) if path.is_relative_to(ROOT) else path)


if __name__ == "__main__":
    with children_end_too():
        sys.exit(main())
