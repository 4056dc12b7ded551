"""Takes the picture of the console in the README: three nodes under some load, in a headless browser.

    .venv/bin/python scripts/documentation/console_picture.py docs/images/console.png

It needs chromium and chromedriver, as the tests of the console do.
"""

import sys
import threading
import time
from pathlib import Path
from typing import Final

from confluent_kafka import Consumer, Producer

ROOT: Final = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]

# ruff: noqa: E402
from ottla.node.embedded import Cluster
from tests.console.console_page import ConsolePage, chromium, missing_program

TOPICS: Final = ("orders", "payments", "clicks")
LOAD_S: Final = 75.0
RECORDS_PER_S: Final = 400
WIDTH, HEIGHT = 1280, 1572  # the whole page
OVERRIDES: Final = {
    "num.partitions": "6",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "ottla.history.interval.ms": "2000",
}


def main() -> int:
    missing = missing_program()
    if missing is not None:
        print(f"{missing} is not installed: apt-get install chromium chromium-driver", file=sys.stderr)
        return 1
    target = Path(sys.argv[1])
    with Cluster(3, rest=True, overrides=OVERRIDES) as cluster, chromium() as driver:
        stop = threading.Event()
        workers = [threading.Thread(target=produce, args=(cluster.bootstrap, stop))]
        workers += [threading.Thread(target=consume, args=(cluster.bootstrap, stop, one)) for one in TOPICS]
        for worker in workers:
            worker.start()
        page = ConsolePage(driver, cluster.rest_urls[0])
        page.resize(WIDTH, HEIGHT)
        page.wear("light")
        page.load()
        time.sleep(LOAD_S)  # so that the charts of the overview have several samples
        target.write_bytes(driver.get_screenshot_as_png())
        stop.set()
        for worker in workers:
            worker.join()
    return 0


def produce(bootstrap: str, stop: threading.Event) -> None:
    """Write a few hundred records a second, and more now and then."""
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 20, "log_level": 0})
    number = 0
    while not stop.is_set():
        wave = 2 + number // 4_000 % 3
        for topic in TOPICS[:wave]:
            producer.produce(topic, f'{{"number": {number}, "amount": 9.90}}', key=f"customer-{number % 97}")
        number += 1
        producer.poll(0)
        stop.wait(1 / RECORDS_PER_S)
    producer.flush(10)


def consume(bootstrap: str, stop: threading.Event, topic: str) -> None:
    """Read a topic as a group with the topic's name."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap,
            "group.id": f"{topic}-billing",
            "auto.offset.reset": "earliest",
            "log_level": 0,
        }
    )
    consumer.subscribe([topic])
    while not stop.is_set():
        consumer.poll(0.2)
    consumer.close()


if __name__ == "__main__":
    sys.exit(main())
