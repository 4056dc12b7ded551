"""The site of the documentation builds without warnings, its links are valid, and it matches the code."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import typer

from ottla.logstore.log_config import TOPIC_CONFIG_DEF
from ottla.node.cli.app import app
from ottla.node.rest_api.all_routes import ALL_ROUTES
from ottla.node.settings.broker_settings import BROKER_CONFIG_DEF
from ottla.node.settings.group_config_def import GROUP_CONFIG_DEF
from tests.pages import ROOT

sys.path.append(str(ROOT / "scripts"))

from documentation import balance_chart, scale_chart
from documentation.metrics_page import families_of
from documentation.ratio_chart import bars_of, chart
from documentation.scale_page import scale_page
from documentation.settings_page import settings_page
from documentation.site_files import GENERATED, MOUNTED, site_links

DOCUMENTS = sorted({*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / name for name in MOUNTED)})
# Resources that a browser loads by itself; readers follow links.
LOADED = re.compile(r"""<(?:script|img|iframe|link|source)\b[^>]*?(?:src|href)="?([^" >]+)""")
CSS_LOADED = re.compile(r"""(?:url\(|@import )["']?(https?:)?//""")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the site as `scripts/docs` does, where a warning is a failure."""
    pytest.importorskip("material", reason="the site is not built: pip install '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    environment = {"PATH": "/usr/bin:/bin", "NO_MKDOCS_2_WARNING": "1", "HOME": str(folder)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = [path for path in site.rglob("*.html") if path.name != "404.html"]

    loaded = {url for page in pages for url in LOADED.findall(page.read_text())}
    styles = [path.name for path in site.rglob("*.css") if CSS_LOADED.search(path.read_text())]

    assert len(pages) > 30 and any(url.endswith(".css") for url in loaded)
    assert [url for url in loaded if re.match(r"(https?:)?//", url)] == []
    assert styles == []


def test_the_references_name_every_setting_command_and_metric(site: Path) -> None:
    settings, commands, metrics, rest = (
        (site / "reference" / f"{name}.html").read_text()
        for name in ("settings", "commands", "metrics", "rest")
    )
    keys = [*BROKER_CONFIG_DEF.keys, *TOPIC_CONFIG_DEF.keys, *GROUP_CONFIG_DEF.keys]
    command = typer.main.get_command(app)
    groups = [(name, command.get_command(None, name)) for name in command.list_commands(None)]  # type: ignore[attr-defined, arg-type]
    names = [
        f"ottla {name} {child}"
        for name, group in groups
        if hasattr(group, "list_commands")
        for child in group.list_commands(None)
    ]

    assert [key for key in keys if f"<code>{key}</code>" not in settings] == []
    assert [name for name in names if f"<code>{name}</code>" not in commands] == []
    assert "ottla pipeline run" in names
    for metric in (
        "kafka_server_replicamanager_underreplicatedpartitions",
        "ottla_scrape_left_out",
        "kminion_kafka_cluster_info",
    ):
        assert f"<code>{metric}</code>" in metrics
    documented = [one for one in ALL_ROUTES if one.is_documented]
    assert [one.path for one in documented if f"<code>{one.method} {one.path}</code>" not in rest] == []


@pytest.mark.parametrize(
    ("table", "row"),
    [
        (
            "Brokers",
            "| `log.cleaner.threads`<br>int, `1`, *any time* | The number of logs that can be compacted at "
            "the same time. Allowed: `[1,...]`. |",
        ),
        (
            "Brokers",
            "| `node.id`<br>int, `0`, *at start* | The id of this node, unique in the cluster. "
            "Allowed: `[0,...]`. |",
        ),
        (
            "Topics",
            "| `retention.ms`<br>long, `604800000` | How long records are kept before their segment is "
            "deleted (cleanup.policy=delete); -1 means no limit. Allowed: `[-1,...]`. |",
        ),
        (
            "Groups",
            "| `share.auto.offset.reset`<br>string, `latest` | Where the group starts in a partition that it "
            "has not read yet: earliest, latest, or by_duration:PnDTnHnMn.nS, which is this duration before "
            "now. Allowed: "
            "`[earliest, latest, by_duration:<PnDTnHnMn.nS>]`. |",
        ),
        (
            "Client metrics",
            "| `interval.ms`<br>int, `300000` | How often a client pushes its metrics, in milliseconds: 100 "
            "to 3,600,000. |",
        ),
    ],
)
def test_a_row_of_the_settings_has_type_default_scope_and_description(table: str, row: str) -> None:
    tables = {}
    for part in settings_page().split("\n## "):
        title, _, lines = part.partition("\n")
        tables[title] = lines.splitlines()

    assert row in tables[table]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_to_files_that_exist(document: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```$", "", document.read_text(), flags=re.M | re.S)
    targets = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", text))
    generated = {(ROOT / "docs" / name).resolve() for name in (*GENERATED, *_site_only())}

    missing = []
    for target in targets:
        path = target.partition("#")[0]
        if not path or re.match(r"[a-z]+:", path):
            continue
        file = (document.parent / path).resolve()
        if not file.exists() and not ("docs" in document.parts and file in generated):
            missing.append(target)
    assert missing == []


def _site_only() -> list[str]:
    """Return the paths in the site of pages outside of docs, to which other pages may link."""
    return [place for place in MOUNTED.values() if "/" not in place]


def test_the_chart_is_drawn_from_the_figures() -> None:
    document = json.loads((ROOT / "docs" / "data" / "benchmarks.json").read_text())

    drawn = chart(bars_of(document["rows"]))

    assert len(bars_of(document["rows"])) >= 10
    assert (ROOT / "docs" / "images" / "ratios.svg").read_text() == drawn, "run scripts/docs chart"


def test_the_curves_are_drawn_from_the_figures() -> None:
    document = json.loads((ROOT / "docs" / "data" / "scale.json").read_text())

    curves = scale_chart.curves_of(document)

    assert all(len(curve.points) >= 4 for curve in curves)
    assert (ROOT / "docs" / "images" / "scale.svg").read_text() == scale_chart.chart(curves), (
        "run scripts/docs chart"
    )


def test_the_growth_of_a_cluster_is_drawn_from_its_series() -> None:
    document = json.loads((ROOT / "docs" / "data" / "benchmarks_balance.json").read_text())
    figures = {(row["workload"], row["figure"]): row["ottla"] for row in document["rows"]}

    assert [len(panel.lines) for panel in balance_chart.panels_of(document["series"])] == [5, 5, 5, 2]
    assert figures["growth: records", "lost"] == figures["growth: records", "twice"] == 0
    drawn = (ROOT / "docs" / "images" / "balance.svg").read_text()
    assert drawn == balance_chart.chart(document), "run scripts/docs chart"


def test_the_page_on_scale_has_a_column_for_each_size() -> None:
    document = {
        "machine": {"at": "today", "cpus": 2, "kernel": "6", "python": "3"},
        "rows": [
            {"workload": f"{size} partitions", "figure": "image MB", "ottla": float(size)}
            for size in (10, 200)
        ],
    }

    page = scale_page(document)

    assert "| | 10 partitions | 200 partitions |\n" in page and "| image MB | 10 | 200 |\n" in page


def test_a_ratio_is_inverted_if_less_is_better() -> None:
    row = {
        "workload": "memory after 1 GB",
        "figure": "MB RSS",
        "ratio": 0.25,
        "lower quartile": 0.2,
        "upper quartile": 0.5,
    }

    [bar] = bars_of([row])

    assert (bar.times, bar.worst, bar.best) == (4.0, 2.0, 5.0)


def test_links_are_rewritten_for_the_site() -> None:
    text = "[a](../k8s/README.md#x) [b](../pyproject.toml) [c](groups.md) [d](https://e.org)\n```sh\n[a](../k8s/README.md)\n```\n"

    written = site_links(text, "docs/topics.md", {"kubernetes.md", "groups.md"})
    in_architecture = site_links(
        "[design](node/DESIGN.md) [docs](docs/index.md)",
        "ARCHITECTURE.md",
        {"architecture/node.md", "index.md"},
    )

    assert (
        written.splitlines()[0]
        == "[a](kubernetes.md#x) b (`pyproject.toml`) [c](groups.md) [d](https://e.org)"
    )
    assert written.splitlines()[2] == "[a](../k8s/README.md)"
    assert in_architecture == "[design](node.md) [docs](../index.md)"


def test_the_families_of_a_scrape_have_their_labels() -> None:
    scrape = (
        "# HELP a_total Of all.\n# TYPE a_total counter\n"
        'a_total 1\na_total{topic="x"} 1\n'
        "# HELP b None yet.\n# TYPE b gauge\n"
    )

    first, second = families_of(scrape)

    assert first == ("a_total", "counter", "Of all.", ("topic",))
    assert second == ("b", "gauge", "None yet.", ())
