"""Every error Penstock raises, on one page, split by who must act.

Each error has a stable ``condition`` and named ``parameters``; the message is made from them and
says what was found, what is allowed and what to do next. Tests assert the condition and its
parameters, never the prose.
"""

from __future__ import annotations

from typing import Any, ClassVar


class PenstockError(Exception):
    """The root. Catch this to catch everything that Penstock raises on purpose."""

    condition: ClassVar[str] = "PENSTOCK"
    template: ClassVar[str] = "{message}"

    def __init__(self, **parameters: Any) -> None:
        self.parameters = parameters
        super().__init__(f"[{self.condition}] {self.template.format(**parameters)}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.parameters))


def _rebuild(cls: type[PenstockError], parameters: dict[str, Any]) -> PenstockError:
    return cls(**parameters)


# --- the author of the topology must act -------------------------------------------------------


class TopologyError(PenstockError, ValueError):
    """The topology as written cannot run. Nothing was started."""


class DuplicateNodeName(TopologyError):
    """Two nodes of one topology have the same name."""

    condition = "DUPLICATE_NODE_NAME"
    template = "node '{node}' is declared at {site} and again at {again}; rename one of them"


class BadNodeName(TopologyError):
    """A node's name cannot serve as its identity."""

    condition = "BAD_NODE_NAME"
    template = (
        "node name {node!r} at {site} is not allowed; use letters, digits, '.', '_' and '-', "
        "start with a letter or digit, at most 64 characters"
    )


class UnknownNode(TopologyError, LookupError):
    """A name was used that no node has."""

    condition = "UNKNOWN_NODE"
    template = "no node '{node}' in topology '{topology}'; it has: {known}"

    def __str__(self) -> str:  # LookupError must not quote the message as KeyError does
        return str(self.args[0])


class UnknownOutput(TopologyError, LookupError):
    """A named output was asked for that the node does not have."""

    condition = "UNKNOWN_OUTPUT"
    template = "node '{node}' ({site}) has no output '{output}'; it has: {known}"


class CyclicTopology(TopologyError):
    """Streams lead back to where they came from."""

    condition = "CYCLIC_TOPOLOGY"
    template = "the nodes {cycle} form a cycle; a topology must flow from sources to sinks"


class ForeignStream(TopologyError):
    """A stream of one topology was used in another."""

    condition = "FOREIGN_STREAM"
    template = (
        "node '{node}' ({site}) takes an input from topology '{other}', but belongs to '{topology}'; "
        "build both nodes on the same Topology"
    )


class MissingColumn(TopologyError, LookupError):
    """A node needs a column that its input does not have."""

    condition = "MISSING_COLUMN"
    template = (
        "node '{node}' ({site}) needs column '{column}', but its input has only: {columns}; "
        "correct the name, or add the column in the node before"
    )


class WrongType(TopologyError, TypeError):
    """A column or argument has a type that the node cannot take."""

    condition = "WRONG_TYPE"
    template = "node '{node}' ({site}): {what} is {got}; allowed: {allowed}"


class BadArgument(TopologyError):
    """An argument is outside of what is allowed."""

    condition = "BAD_ARGUMENT"
    template = "{where}: {what} is {got}; allowed: {allowed}"


class SchemaMismatch(TopologyError, TypeError):
    """Streams that meet have different columns."""

    condition = "SCHEMA_MISMATCH"
    template = (
        "node '{node}' ({site}): {what}\n  expected: {expected}\n  got:      {got}\n"
        "select or cast the columns in the node before"
    )


class SchemaUnknown(TopologyError):
    """What a node emits cannot be told without running it."""

    condition = "SCHEMA_UNKNOWN"
    template = (
        "node '{node}' ({site}) emits columns that cannot be found by running it on an empty batch"
        "{because}; declare them, e.g. returns={{'key': str, 'count': int}}"
    )


class NotShippable(TopologyError, TypeError):
    """A function or operator cannot be sent to the workers."""

    condition = "NOT_SHIPPABLE"
    template = (
        "node '{node}' ({site}): {what} cannot be sent to Spark's workers: {reason}; "
        "create such objects inside the function or in the operator's init_state()"
    )


class EmptyTopology(TopologyError):
    """There is nothing to run."""

    condition = "EMPTY_TOPOLOGY"
    template = "topology '{topology}' has no {missing}; add one with {how}"


class BadChange(TopologyError):
    """A change cannot be applied to a running topology."""

    condition = "BAD_CHANGE"
    template = "topology '{topology}' cannot change while it runs: {reason}; {next_step}"


class SourceUndecided(TopologyError):
    """A source reads another place than before, and it is not said what becomes of its offset."""

    condition = "SOURCE_UNDECIDED"
    template = "topology '{topology}': source '{source}': {what}; say what becomes of its offset: {choices}"


# --- the author of an operator, source or sink must act -----------------------------------------


class UserCodeError(PenstockError, RuntimeError):
    """A user's function or operator failed or broke its contract."""


class OperatorFailed(UserCodeError):
    """A user's exception in an operator, with its address."""

    condition = "OPERATOR_FAILED"
    template = (
        "node '{node}' (declared at {site}) failed in epoch {epoch}: {error}\n"
        "the batch that it failed on is saved in {saved}\n"
        "mend the operator and run again: it continues with this epoch; or set "
        'on_error="dead-letter" on the node to put failing records aside\n{traceback}'
    )


class BadEmission(UserCodeError):
    """An operator emitted something that does not fit what it declared."""

    condition = "BAD_EMISSION"
    template = "node '{node}' (declared at {site}) emitted {got} on output '{output}'; declared: {expected}"


class StateNotRestorable(UserCodeError):
    """An operator cannot read the state that an earlier version of it wrote."""

    condition = "STATE_NOT_RESTORABLE"
    template = (
        "node '{node}' (declared at {site}) cannot restore the state of slice {slice}: {reason}; "
        "implement migrate_state(blob, from_version), or run the earlier version"
    )


# --- the environment must act -------------------------------------------------------------------


class EnvironmentError_(PenstockError, RuntimeError):
    """Something outside of Penstock is missing or broken."""


class JavaNotFound(EnvironmentError_):
    """Spark needs a Java runtime and none was found."""

    condition = "JAVA_NOT_FOUND"
    template = (
        "Spark needs Java 17 or newer; found: {found}. Install one (Debian: apt-get install "
        "openjdk-17-jre-headless) or `pip install 'penstock[java]'`"
    )


class MissingExtra(EnvironmentError_, ImportError):
    """An optional dependency is not installed."""

    condition = "MISSING_EXTRA"
    template = "{what} needs the package '{package}'; run: pip install 'penstock[{extra}]'"


class NdpiUnusable(EnvironmentError_, ImportError):
    """nDPI is missing, or is not the library whose binary interface is declared here; it is not called."""

    condition = "NDPI_UNUSABLE"
    template = "nDPI cannot be used: {what} is {got}; allowed: {allowed}; {next_step}"


class SourceUnavailable(EnvironmentError_):
    """A source cannot be read."""

    condition = "SOURCE_UNAVAILABLE"
    template = "source '{source}': {what} at {where}; {next_step}"


class SinkRefused(EnvironmentError_):
    """A sink does not want what it is given; it will not want it later either."""

    condition = "SINK_REFUSED"
    template = "sink '{sink}': {what} at {where}; {next_step}"


class SinkUnavailable(EnvironmentError_):
    """A sink cannot be written."""

    condition = "SINK_UNAVAILABLE"
    template = "sink '{sink}': {what} at {where}; {next_step}"


class SecretUnusable(EnvironmentError_):
    """A credential of a source or sink has no value that can be used; the value is never shown."""

    condition = "SECRET_UNUSABLE"
    template = "{where}: {what} {got}; allowed: {allowed}; {next_step}"


class RunDirectoryInUse(EnvironmentError_):
    """Two processes want to run the same topology in the same place."""

    condition = "RUN_DIRECTORY_IN_USE"
    template = (
        "{directory} is in use by process {pid}; stop that run. To run beside it, choose another place with "
        "--dir; to run instead of it, if it hangs, take over with --take-over"
    )


class Fenced(EnvironmentError_):
    """A newer runner of the same run has taken over; this one must not write any more."""

    condition = "FENCED"
    template = (
        "{directory} was taken over by another runner (fencing token {newest}, this one has {mine}); "
        "nothing of this one is committed any more: let it end, the other goes on"
    )


class ChangedMeanwhile(EnvironmentError_):
    """A change was planned on a version of the run that is not the current one any more."""

    condition = "CHANGED_MEANWHILE"
    template = "{directory}: {what}; {next_step}"


class GaveUp(EnvironmentError_):
    """A run failed again and again, and was not started once more."""

    condition = "GAVE_UP"
    template = "{topology}: {why}; the cause: {cause}\nwhat happened before: penstock incidents {directory}"


class RunDirectoryMismatch(EnvironmentError_):
    """A run directory belongs to something else."""

    condition = "RUN_DIRECTORY_MISMATCH"
    template = "{directory} {what}; {next_step}"


class RunDirectoryBroken(EnvironmentError_):
    """A file of a run directory is missing or was changed by something else."""

    condition = "RUN_DIRECTORY_BROKEN"
    template = "{path}: {what}; {next_step}"


class VersionNotLoadable(EnvironmentError_):
    """A stored version carries code of another Python or library, which cannot be loaded here."""

    condition = "VERSION_NOT_LOADABLE"
    template = "{directory}: version {version} {what}; {next_step}"


class EnvironmentChanged(EnvironmentError_):
    """Python or a library was replaced while a supervisor was running, and its driver cannot be started."""

    condition = "ENVIRONMENT_CHANGED"
    template = (
        "the supervisor of this run was started with {before}, and its new driver has {now} ({why}); "
        "stop the supervisor and start the run again: it goes on where it stopped"
    )


class StateDamaged(RunDirectoryBroken):
    """What a checkpoint holds of a slice's state is not what was written."""

    condition = "STATE_DAMAGED"
    template = (
        "the state of node '{node}', slice {slice}, is damaged: {what}; go back to a savepoint "
        "(penstock savepoint list DIR), or go on without this node's state: --ignore-state {node}"
    )


class SavepointBroken(EnvironmentError_):
    """A savepoint is missing, incomplete, or not what was written."""

    condition = "SAVEPOINT_BROKEN"
    template = "savepoint {savepoint}: {what}; {next_step}"


class SavepointFailed(EnvironmentError_):
    """A savepoint could not be taken or restored."""

    condition = "SAVEPOINT_FAILED"
    template = "{directory}: {what}; {next_step}"


class AppNotFound(EnvironmentError_, LookupError):
    """The command line named something that holds no topology."""

    condition = "APP_NOT_FOUND"
    template = "{what}: {reason}; {next_step}"


class StreamFailed(EnvironmentError_):
    """Spark ended the stream for a reason that is not the user's code."""

    condition = "STREAM_FAILED"
    template = "topology '{topology}' stopped in epoch {epoch}: {reason}"


class SparkGone(StreamFailed):
    """The JVM has died, or its context was stopped from outside."""

    condition = "SPARK_GONE"


class StateUnreachable(EnvironmentError_):
    """A task was cut off from its state: Spark has ended it, or the state store has failed."""

    condition = "STATE_UNREACHABLE"
    template = "Spark's state store does not answer ({error}); what ended the task is told beside this"


# --- we must act --------------------------------------------------------------------------------


class InternalError(PenstockError, RuntimeError):
    """A promise of Penstock to itself was broken: please report it."""

    condition = "INTERNAL"
    template = "{what}; this is a fault of Penstock: please report it with this message"
