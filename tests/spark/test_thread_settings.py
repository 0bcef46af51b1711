"""Threads of the JVM that belong to no session have the settings of the run, once a query has started."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from py4j.java_gateway import JavaPackage
from pyspark.sql import SparkSession

import penstock as ps
from penstock.spark.thread_settings import let_threads_follow
from tests.spark.topologies import ORDERS, make_orders

pytestmark = pytest.mark.spark
ASK = """
public Object call() {
    return org.apache.spark.sql.internal.SQLConf.get().codegenFactoryMode().toString();
}
"""


def programs_for_rows(session: SparkSession) -> str:
    """What a thread that belongs to no session thinks of generated programs."""
    jvm: Any = session._jvm
    compiler = jvm.org.codehaus.janino.ClassBodyEvaluator()
    loader = jvm.Thread.currentThread().getContextClassLoader()
    compiler.setParentClassLoader(loader)
    interfaces = session.sparkContext._gateway.new_array(jvm.Class, 1)
    interfaces[0] = loader.loadClass("java.util.concurrent.Callable")
    compiler.setImplementedInterfaces(interfaces)
    question = compiler.createInstance(jvm.java.io.StringReader(ASK))
    sessions = jvm.org.apache.spark.sql.classic.SparkSession
    active = sessions.getActiveSession()
    sessions.clearActiveSession()  # a new thread inherits it
    threads = jvm.java.util.concurrent.Executors.newSingleThreadExecutor()
    try:
        return str(threads.submit(question).get())
    finally:
        threads.shutdown()
        if active.isDefined():
            sessions.setActiveSession(active.get())


def test_threads_of_no_session_follow_the_run(spark_run: Any) -> None:
    top = ps.Topology("any")
    top.source("orders", ps.Generator(make_orders, schema=ORDERS, rows=10)).sink("out", ps.Collect())
    spark_run.through(top)
    session = SparkSession.builder.getOrCreate()
    assert programs_for_rows(session) == session.conf.get("spark.sql.codegen.factoryMode") == "NO_CODEGEN"
    session._jsparkSession.newSession()
    assert programs_for_rows(session) == "FALLBACK", (
        "Spark no longer has defaults for them: ours is not needed"
    )
    assert let_threads_follow(session)
    assert programs_for_rows(session) == "NO_CODEGEN"


def test_a_jvm_without_these_classes_is_no_failure_of_the_query() -> None:
    session: Any = SimpleNamespace(_jvm=JavaPackage("none", None))
    assert not let_threads_follow(session)
