"""What the process behind ``eventsched run`` is to run, from its options and settings."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from eventsched import __version__
from eventsched.domain.behaviours import CURRENT, Behaviour
from eventsched.domain.errors import InputError
from eventsched.domain.records import FORMAT, StreamStarted
from eventsched.domain.records.stimuli import SERVES, SHADOWS, WORK_BUDGET
from eventsched.eventlog.address_file import Address
from eventsched.eventlog.checkpoints import Signer
from eventsched.process import settings as process_settings
from eventsched.process.configuration_files import ConfigurationFiles
from eventsched.process.sections.detail_settings import detail_levels
from eventsched.process.settings import Settings, seconds
from eventsched.runtime.assembly import Assembly, registry
from eventsched.runtime.leader.limits import Limits
from eventsched.runtime.live.checkpoint_signing import Checkpointer, CheckpointObserver
from eventsched.runtime.live.log_housekeeping import Retention
from eventsched.runtime.live.ports import Election
from eventsched.runtime.live.replica_plan import ReplicaPlan
from eventsched.runtime.simulation.simulation import DEFAULT_SEED
from eventsched.scheduling.config.checking import check
from eventsched.scheduling.config.completion import completed
from eventsched.web.metrics import Metrics

_DEFAULT = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"

LINGER = 20_000
"""µs that a change of the cluster waits to share a batch with a request, when serving other
schedulers. Each request needs a commit. Separate commits for the changes would double their number,
and the next request would have to wait for them."""

CHECKPOINT_ANNOTATION = "eventsched.io/checkpoint"
"""The annotation of the Lease with the newest signed checkpoint."""
ANNOTATIONS = "annotations"
"""Key in a stream's ``inputs``: which annotations of objects are kept."""


class ServiceOptions(NamedTuple):
    """What to run. ``address`` is the database's. ``kubeconfig`` is None for the usual places.
    ``plugins`` are the plugin files named by the user. With ``serves`` the process does not
    schedule: it answers other schedulers, as the settings' ``extender`` section says. ``files`` are
    watched for changes, and ``read`` then reads them, the options and the environment again; None
    if changes need a restart."""

    assembly: Assembly
    settings: Settings
    address: Address
    kubeconfig: Path | None
    plugins: tuple[Path, ...]
    serves: bool = False
    files: ConfigurationFiles | None = None
    read: Callable[[], tuple[Assembly, Settings]] | None = None
    known: Mapping[str, type[Any]] | None = None
    """The plugins that were loaded at the start, by name."""

    @property
    def registry(self) -> Mapping[str, type[Any]]:
        """All plugins, by name. Raises InputError."""
        return registry(self.plugins) if self.known is None else self.known

    @property
    def shadows(self) -> bool:
        """Whether the process follows another scheduler and binds nothing."""
        return self.settings.shadow.enabled and not self.serves

    @property
    def source(self) -> str:
        """The name of the configuration, for messages."""
        return str(self.files.config) if self.files is not None else "configuration"

    def again(self) -> "ServiceOptions":
        """The same with what the files say now. Raises InputError."""
        assert self.read is not None
        assembly, settings = self.read()
        return self._replace(assembly=assembly, settings=settings)


def kept_annotations(job: ServiceOptions) -> tuple[str, ...]:
    """The annotations to keep: those that plugins declare and those that the settings name."""
    return tuple(sorted({*job.assembly.annotations, *job.settings.keep_annotations}))


class PublishedCheckpoints:
    """Counts checkpoints, and publishes the newest one as an annotation of the Lease."""

    def __init__(self, metrics: Metrics, election: Election) -> None:
        self._metrics, self._election = metrics, election

    def checkpoint_signed(self, note: str) -> None:
        """A checkpoint was signed."""
        self._metrics.checkpoint_signed()
        self._election.annotate(CHECKPOINT_ANNOTATION, note)

    def checkpoint_unwritten(self) -> None:
        """A checkpoint could not be written to the file."""
        self._metrics.checkpoint_unwritten()


def plan_of(
    job: ServiceOptions, identity: str, checkpoints: CheckpointObserver | None = None
) -> ReplicaPlan:
    """What all terms of the replica called ``identity`` have in common, with all behaviours of this
    version. ``checkpoints`` receives those that are signed."""
    assembly, settings = job.assembly, job.settings
    annotations = kept_annotations(job)
    opening = StreamStarted(
        format=FORMAT,
        engine=__version__,
        seed=DEFAULT_SEED,
        inputs={
            "configuration": assembly.digest,
            **({SERVES: settings.extender.profile} if job.serves else {}),
            **({SHADOWS: " ".join(settings.shadow.schedulers)} if job.shadows else {}),
            **({WORK_BUDGET: str(settings.work_budget)} if settings.work_budget else {}),
            **({ANNOTATIONS: " ".join(annotations)} if annotations else {}),
        },
        configuration=assembly.text,
        flags=(*CURRENT, Behaviour.SHADOWS) if job.shadows else CURRENT,
        plugins=assembly.sources,
    )
    limits = Limits(
        records=settings.batch.records,
        size=settings.batch.bytes,
        snapshot_every=settings.snapshot.records,
        linger=LINGER if job.serves else 0,
    )
    levels = detail_levels(settings.detail)
    return ReplicaPlan(
        partial(assembly.engine, detail_levels=levels),
        opening,
        job.address,
        settings.stream,
        identity,
        limits,
        retention=Retention(
            vectors_age=seconds(settings.retention.detail),
            records_age=seconds(settings.retention.records),
            needs_archive=settings.retention.require_archive,
        ),
        checkpointer=checkpointer_of(settings, checkpoints),
        engine_as_of=lambda flags: partial(assembly.as_of(flags).engine, detail_levels=levels),
    )


def checkpointer_of(
    settings: Settings, observer: CheckpointObserver | None = None
) -> Checkpointer | None:
    """The signer of checkpoints that the settings configure; None without a key. Raises InputError
    if the key cannot be read or the folder cannot be written to."""
    options = settings.checkpoints
    if not options.key:
        return None
    signer = Signer.read(Path(options.key), "checkpoints.key")
    if options.to and not os.access(options.to, os.W_OK | os.X_OK):
        problem = f"{options.to} is no folder that can be written to"
        raise InputError("checkpoints.to", problem, "make it, or mount it for writing")
    return Checkpointer(
        signer, settings.stream, every=seconds(options.every),
        folder=Path(options.to) if options.to else None, observer=observer,
    )  # fmt: skip


def problems_of(job: ServiceOptions, text: str) -> list[InputError]:
    """Every problem of a text as the configuration of a job."""
    checked = check(text, job.source, job.registry)
    profiles = [profile.name for profile in checked.profiles]
    others = process_settings.problems(text, job.source, checked.problems, profiles)
    return [*checked.problems, *others]


def shown_configuration(job: ServiceOptions) -> dict[str, Any]:
    """What /configz shows: both documents with every default filled in, and with the values that
    options and environment variables override."""
    checked = check(job.assembly.text or _DEFAULT, "configuration", job.registry)
    return {
        "kubescheduler": completed(checked.configuration, checked.profiles),
        "eventsched": msgspec.to_builtins(job.settings),
    }
