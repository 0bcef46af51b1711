"""Modes of files, set by the JVM itself.

Hadoop starts a process, `chmod`, for each file that it creates on a local disk. In an epoch on two cores
Spark writes four files of its checkpoint, each with its sums beside it: eight processes, which took 27 ms of
processor time, and the JVM about 20 to start and await them. Hadoop does without where it finds its library
in C, which no package brings. So its local files get another method to set a mode, compiled by the compiler
that Spark has.

They set the modes that Hadoop asks for, which let everyone read. Others cannot come so far: the folder at the
top of a run directory is its owner's alone (see `connect.private`), and so are Spark's own folders in /tmp.

They also get another way to rename: a file that is there is never replaced. Hadoop looks whether the
target is there and then renames, so of two drivers that write the same entry of the offset or commit log,
both could succeed. A link is made by the system only if its name is free.
"""

from __future__ import annotations

import os

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

_SETTING, _CLASS = "fs.file.impl", "penstock.LocalFiles"
_SOURCE = """
package penstock;

import java.io.File;
import java.io.IOException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class LocalFiles extends LocalFileSystem {
    public LocalFiles() { super(new Raw()); }

    public boolean rename(Path from, Path to) throws IOException {
        return !isFile(to) && super.rename(from, to);
    }

    public static class Raw extends RawLocalFileSystem {
        public boolean rename(Path from, Path to) throws IOException {
            File source = pathToFile(from);
            if (!source.isFile() || from.getName().endsWith(".crc")) {
                return super.rename(from, to);
            }
            try {
                Files.createLink(pathToFile(to).toPath(), source.toPath());
            } catch (FileAlreadyExistsException there) {
                return false;
            } catch (FileSystemException without) {
                return super.rename(from, to);
            } catch (UnsupportedOperationException without) {
                return super.rename(from, to);
            }
            Files.delete(source.toPath());
            return true;
        }

        public void setPermission(Path path, FsPermission mode) throws IOException {
            if (mode.getStickyBit()) {
                super.setPermission(path, mode);
            } else {
                Files.setPosixFilePermissions(
                    pathToFile(path).toPath(), PosixFilePermissions.fromString(mode.toString()));
            }
        }
    }
}
"""


def set_modes_in_jvm(spark: SparkSession) -> bool:
    """Let the driver's JVM, and with it the tasks that run in it, set modes without starting processes.

    Whether it does from now on. If not, all works as Hadoop has it.
    """
    assert spark._jvm is not None
    hadoop, settings = spark._jvm.org.apache.hadoop, spark._jsc.hadoopConfiguration()
    if os.name != "posix" or settings.get(_SETTING) is not None:  # the user's own choice is kept
        return False
    root = spark._jvm.java.net.URI("file:///")
    try:
        usual = hadoop.fs.FileSystem.get(root, settings)
        if usual.getClass().getName() == _CLASS:
            return True
        compiler = spark._jvm.org.codehaus.janino.SimpleCompiler()
        compiler.setParentClassLoader(settings.getClassLoader())
        compiler.cook(_SOURCE)
        asking = hadoop.conf.Configuration(settings)
        asking.setClassLoader(compiler.getClassLoader())
        asking.set(_SETTING, _CLASS)
        # All who ask for local files, with whatever settings, get those that were made first.
        usual.close()
        return bool(hadoop.fs.FileSystem.get(root, asking).getClass().getName() == _CLASS)
    except Py4JJavaError:
        return False
