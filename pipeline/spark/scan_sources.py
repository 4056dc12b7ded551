"""A source object for each scan of a query, without which filters must not be pushed.

Spark 4.1 to 4.3 keep the plan that a source in Python made for a filter in the source object. All scans of a
frame, a view or a table in one statement share that, so a filter of one of them would be applied to all. Here
a rule of Spark's optimizer, which is Java, gives each scan an object of its own, right before filters are
pushed. Spark compiles it with the compiler that it has for its queries. The rule marks the options of those
scans, and readers take filters only for marked ones: where the rule does not run, nothing is pushed.
"""

import logging
from typing import Any, Final

from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import SparkSession

from ottla.pipeline.source.option_names import SCAN_OPTION

LOG = logging.getLogger("ottla.session")
SETTING: Final = "spark.sql.python.filterPushdown.enabled"  # Spark's own; false by default
_CLASS: Final = "ottla.ScanSources"
_JAVA: Final = """
package ottla;

import java.util.HashMap;
import java.util.Map;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;
import org.apache.spark.sql.execution.datasources.v2.python.PythonDataSourceV2;
import org.apache.spark.sql.execution.datasources.v2.python.PythonTable;
import org.apache.spark.sql.internal.SQLConf$;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;
import scala.Function1;
import scala.runtime.AbstractFunction1;
import scala.runtime.AbstractPartialFunction;

public class ScanSources extends Rule {
  public TreeNode apply(TreeNode plan) {
    if (!SQLConf$.MODULE$.get().pythonFilterPushDown()) return plan;
    return ((LogicalPlan) plan).transform(new Renewal());
  }

  public static class Renewal extends AbstractPartialFunction {
    public boolean isDefinedAt(Object node) {
      if (!(node instanceof DataSourceV2Relation)) return false;
      Object table = ((DataSourceV2Relation) node).table();
      return table instanceof PythonTable && "ottla".equals(((PythonTable) table).name());
    }

    public Object applyOrElse(Object node, Function1 otherwise) {
      if (!isDefinedAt(node)) return otherwise.apply(node);
      DataSourceV2Relation relation = (DataSourceV2Relation) node;
      PythonDataSourceV2 source = new PythonDataSourceV2();
      source.setShortName("ottla");
      Object table = source.getTable(relation.table().schema(), new Transform[0], new HashMap());
      Map options = new HashMap(relation.options().asCaseSensitiveMap());
      options.put("MARK", "true");
      // The fields of a relation depend on the version of Spark.
      Object[] fields = new Object[relation.productArity()];
      for (int at = 0; at < fields.length; at++) {
        Object field = relation.productElement(at);
        if (field == relation.table()) field = table;
        else if (field instanceof CaseInsensitiveStringMap) field = new CaseInsensitiveStringMap(options);
        fields[at] = field;
      }
      return relation.makeCopy(fields);
    }
  }

  public static class Builder extends AbstractFunction1 {
    public Object apply(Object session) {
      return new ScanSources();
    }
  }
}
""".replace("MARK", SCAN_OPTION)


def give_each_scan_a_source(session: SparkSession) -> None:
    """Let filters be pushed into the scans of a session, and of sessions that share its extensions.

    It has an effect while Spark's setting is true. If this Spark does not accept the rule, a warning is
    logged, and the session continues without it.
    """
    known: Any = session
    jvm: Any = SparkContext._jvm
    # Java stays in a process whose first session has ended, and the next may be one of Spark Connect.
    extended = getattr(known, "_jsparkSession", None)
    if jvm is None or extended is None or hasattr(known, "_ottla_scan_sources"):
        return  # a session of Spark Connect, or one that has the rule
    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(_JAVA)
        builder = compiler.getClassLoader().loadClass(f"{_CLASS}$Builder").newInstance()
        # These rules run once, right before filters are pushed, so no scan is copied in between.
        extended.extensions().injectPreCBORule(builder)
    except Py4JError as error:
        LOG.warning(
            "%s has no effect for topics, as this Spark refuses the rule that Ottla adds for it: %s",
            SETTING,
            error,
        )
        return
    known._ottla_scan_sources = True
