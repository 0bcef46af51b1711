"""Settings of the session, also for threads of its JVM that belong to none.

A thread that Spark starts beside a task, such as the one that serves a hop's state, follows neither session
nor task: it has Spark's defaults. By these it wrote programs for the rows of a state variable in every task,
only to find that they were compiled already: a fifth of the JVM's processor time in a small epoch. So Spark
is given a function that finds the settings of such threads, compiled by the compiler that Spark has.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

_FUNCTION = """
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.internal.SQLConf;

public Object apply() {
    scala.Option found = SparkSession.getActiveSession();
    if (found.isEmpty()) {
        found = SparkSession.getDefaultSession();
    }
    if (found.isEmpty() || ((SparkSession) found.get()).sparkContext().isStopped()) {
        return SQLConf.getFallbackConf();
    }
    return ((SparkSession) found.get()).sessionState().conf();
}
"""


def let_threads_follow(spark: SparkSession) -> bool:
    """Give threads without a session the settings of the session that was made first; whether they have them.

    To be called after a query has started: each session that is made, and each query makes one, puts Spark's
    own function back. If it cannot be done, all works as Spark has it: a query that runs must not be left
    alone for it.
    """
    assert spark._jvm is not None
    try:
        spark._jvm.org.apache.spark.sql.internal.SQLConf.setSQLConfGetter(_function(spark._jvm))
    except (Py4JError, OSError, TypeError):  # to py4j a class that is not there is a package: not callable
        return False
    return True


@lru_cache(maxsize=1)
def _function(jvm: Any) -> Any:
    """Compiled once in a JVM."""
    compiler = jvm.org.codehaus.janino.ClassBodyEvaluator()
    loader = jvm.Thread.currentThread().getContextClassLoader()
    compiler.setParentClassLoader(loader)
    compiler.setExtendedClass(loader.loadClass("scala.runtime.AbstractFunction0"))
    return compiler.createInstance(jvm.java.io.StringReader(_FUNCTION))
