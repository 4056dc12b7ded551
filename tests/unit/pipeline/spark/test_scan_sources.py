"""A session of a Spark that does not accept our optimizer rule."""

import logging
from types import SimpleNamespace
from typing import Any, cast

import pytest
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkAttributeError
from pyspark.sql import SparkSession

from ottla.pipeline.spark.scan_sources import give_each_scan_a_source


def test_a_spark_that_does_not_accept_the_rule_continues_without_it(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(_source: str) -> None:
        raise Py4JError("no class PythonTable")

    thread = SimpleNamespace(getContextClassLoader=lambda: None)
    compiler = SimpleNamespace(setParentClassLoader=lambda _loader: None, cook=refuse)
    jvm: Any = SimpleNamespace(
        org=SimpleNamespace(
            codehaus=SimpleNamespace(janino=SimpleNamespace(SimpleCompiler=lambda: compiler))
        ),
        java=SimpleNamespace(lang=SimpleNamespace(Thread=SimpleNamespace(currentThread=lambda: thread))),
    )
    monkeypatch.setattr(SparkContext, "_jvm", jvm)

    with caplog.at_level(logging.WARNING, "ottla.session"):
        give_each_scan_a_source(cast(SparkSession, SimpleNamespace(_jsparkSession=SimpleNamespace())))

    assert "spark.sql.python.filterPushdown.enabled has no effect for topics" in caplog.text
    assert "no class PythonTable" in caplog.text


def test_a_client_of_spark_connect_has_no_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SparkContext, "_jvm", None)

    give_each_scan_a_source(cast(SparkSession, SimpleNamespace()))


def test_a_client_of_spark_connect_after_a_session_of_its_own_java_has_no_rule(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Client:
        def __getattr__(self, name: str) -> object:
            raise PySparkAttributeError(
                errorClass="JVM_ATTRIBUTE_NOT_SUPPORTED", messageParameters={"attr_name": name}
            )

    monkeypatch.setattr(SparkContext, "_jvm", SimpleNamespace())

    give_each_scan_a_source(cast(SparkSession, Client()))
