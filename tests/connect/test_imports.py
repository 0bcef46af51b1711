from __future__ import annotations

import subprocess
import sys


def test_describing_sources_and_sinks_imports_neither_polars_nor_arrow() -> None:
    script = (
        "import sys\n"
        "from penstock.connect import collect, console, delta, files, generator, parquet\n"
        "files.Files('in', format='text'); delta.Delta('out'); parquet.ParquetFiles('out')\n"
        "console.Console(); generator.Generator(print, schema={'n': int}); collect.Collect()\n"
        "print(sorted({'polars', 'pyarrow', 'numba', 'deltalake', 'pyspark'} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
