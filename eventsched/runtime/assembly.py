"""Builds an engine: finds plugins, resolves the configuration, makes profiles.

Plugins come from three places: the in-tree list, the entry-point group ``eventsched.plugins`` of
installed packages, and files named on the command line. Two plugins of one name are refused.
"""

import inspect
import sys
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cache, lru_cache, partial
from hashlib import blake2b
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType
from typing import Any
from weakref import WeakKeyDictionary

import msgspec

from eventsched.cluster.files import read_text
from eventsched.domain.behaviours import CURRENT
from eventsched.domain.detail_levels import DetailLevels
from eventsched.domain.errors import InputError
from eventsched.domain.state.scheduler_state import SchedulerState
from eventsched.plugins import IN_TREE
from eventsched.plugins.node_resources_fit import NodeResourcesFit, NodeResourcesFitArgs
from eventsched.runtime.plugin_files import imported
from eventsched.scheduling.config import configuration, resolution
from eventsched.scheduling.config.arguments import without_effect
from eventsched.scheduling.config.checking import beside_their_substitute
from eventsched.scheduling.config.document import first_text
from eventsched.scheduling.config.extenders import extenders_of, ignored_resources
from eventsched.scheduling.config.sections import Configuration
from eventsched.scheduling.engine import Engine
from eventsched.scheduling.framework import POINTS, points_of
from eventsched.scheduling.framework.call_guard import Guard
from eventsched.scheduling.framework.per_node_plugins import adapted
from eventsched.scheduling.framework.profile import Profile
from eventsched.scheduling.framework.sampling import Sampling, wanted
from eventsched.scheduling.queueing.queue_index import Backoff

ENTRY_POINTS = "eventsched.plugins"


@dataclass(frozen=True)
class Assembly:
    """The parts of an engine: ``profiles`` by schedulerName, their configuration, digests of the
    configuration (``digest``) and of each plugin's source (``sources``), the configuration's
    ``text`` ("" for the default one), warnings for the user, and the ``files`` of plugins, by
    name. ``make_again`` is for ``as_of``."""

    configuration: Configuration
    profiles: dict[str, Profile]
    sources: dict[str, str]
    digest: str
    text: str
    warnings: tuple[str, ...]
    files: dict[str, str] = field(default_factory=dict)
    make_again: "Callable[[Collection[int]], Assembly] | None" = None

    @property
    def annotations(self) -> tuple[str, ...]:
        """The annotations that plugins declare to read: names, or prefixes that end with ``/`` or
        ``*``. Raises InputError for a malformed declaration."""
        return tuple(sorted({name for plugin in self._plugins for name in _annotations_of(plugin)}))

    @property
    def samplings(self) -> list[Sampling]:
        """The samples that plugins want. Raises InputError if two plugins want different samples of
        the same name."""
        return wanted(self._plugins)

    @property
    def optional_types(self) -> frozenset[str]:
        """The optional types of objects that these plugins read (``reads_objects``)."""
        return frozenset(
            kind.__name__
            for plugin in self._plugins
            for kind in getattr(plugin, "reads_objects", ())
        )

    def unknown_nodes(self, nodes: Container[str]) -> list[tuple[str, str]]:
        """Plugins whose arguments name a node (``names_node``) that is not among ``nodes``, each
        with that node. It may be a typo, or a node that is still to come."""
        named = {
            (plugin.name, node): None
            for plugin in self._plugins
            if (node := getattr(plugin, "names_node", ""))
        }
        return [(plugin, node) for plugin, node in named if node not in nodes]

    def as_of(self, flags: Collection[int]) -> "Assembly":
        """The same with new plugins that decide as they did with these behaviours, if an assembly
        function has made this."""
        if self.make_again is None:
            return self
        again = self.make_again(flags)
        return replace(again, warnings=self.warnings)

    def engine(
        self, *, with_detail: bool = True, detail_levels: DetailLevels | None = None,
        state: SchedulerState | None = None,
    ) -> Engine:  # fmt: skip
        """A new engine with these profiles; it goes on from ``state`` if that is given."""
        backoff = Backoff(
            self.configuration.pod_initial_backoff_seconds or 0,
            self.configuration.pod_max_backoff_seconds or 0,
        )
        extenders = extenders_of(self.configuration.extenders)
        return Engine(
            self.profiles, backoff, with_detail=with_detail, detail_levels=detail_levels,
            extenders=extenders, state=state,
        )  # fmt: skip

    @property
    def _plugins(self) -> Iterator[Any]:
        return (plugin for profile in self.profiles.values() for plugin in profile.plugins)


def assemble(
    config: Path | None = None, plugin_files: Iterable[Path] = (), guard: Guard | None = None,
    known: Mapping[str, type[Any]] | None = None,
) -> Assembly:  # fmt: skip
    """Reads a KubeSchedulerConfiguration (None: the default one) and makes its profiles. ``guard``
    makes the calls of plugins that are not in-tree; without it they have no deadline. ``known`` are
    plugins that are loaded already, by name; ``plugin_files`` are not read then. Raises InputError
    for any problem of the file or of a plugin."""
    known = registry(plugin_files) if known is None else known
    if config is not None:
        return assemble_document(read_text(config), str(config), known, guard)
    source = "the default configuration"
    assembly = assemble_loaded(configuration.default(), source, known, "", guard)
    return _with_warnings(assembly, known)


def assemble_document(
    document: str, source: str, known: Mapping[str, type[Any]], guard: Guard | None = None
) -> Assembly:
    """The profiles of a configuration as it is written in a file, of whose YAML documents the first
    one counts; ``source`` names it. ``known`` and ``guard`` as in ``assemble``. Raises
    InputError."""
    text = first_text(document)
    loaded = configuration.load(text, source)
    return _with_warnings(assemble_loaded(loaded, source, known, text, guard), known)


def _with_warnings(assembly: Assembly, known: Mapping[str, type[Any]]) -> Assembly:
    """The assembly with warnings about plugins that are known, and about those not used."""
    unused = [
        f"plugin {plugin.name} is enabled in no profile; name it in --config"
        for name, plugin in known.items()
        if name not in IN_TREE and name not in assembly.sources
    ]
    warnings = (*assembly.warnings, *misspelt(known), *undeclared(known), *unused)
    return replace(assembly, warnings=warnings)


def assemble_text(
    text: str, plugin_files: Iterable[Path], source: str, only: Collection[str],
    flags: Collection[int] = CURRENT,
) -> Assembly:  # fmt: skip
    """Makes the profiles of a configuration's text ("": the default one), as a stream holds it.
    ``only`` are the plugins that the stream ran: a default plugin of a later version is left out.
    ``flags`` are the behaviours in force there; ``as_of`` passes them to in-tree plugins whose
    decisions depend on them."""
    loaded = configuration.load(text, source) if text else configuration.default()
    known = {name: plugin for name, plugin in registry(plugin_files).items() if name in only}
    return assemble_loaded(loaded, source, known, text, flags=flags)


def assemble_loaded(
    loaded: Configuration, source: str, known: Mapping[str, type[Any]], text: str = "",
    guard: Guard | None = None, flags: Collection[int] = CURRENT,
) -> Assembly:  # fmt: skip
    """The profiles of a configuration, with the plugins of a registry; ``flags`` as in
    ``assemble_text``."""
    guard = guard or Guard()
    profiles: dict[str, Profile] = {}
    sources: dict[str, str] = {}
    unread: list[str] = []
    for resolved in resolution.resolve_all(loaded, known, source):
        for problem in resolved.unavailable:
            raise problem
        instances: dict[str, Any] = {}
        for name in dict.fromkeys(name for names in resolved.running.values() for name in names):
            typed = _with_ignored(known[name], resolved.typed.get(name), loaded)
            instances[name] = _instance(known[name], typed, source)
            if name in IN_TREE and hasattr(instances[name], "as_of"):
                instances[name].as_of(flags)
            if name not in IN_TREE:
                instances[name] = guard.guarded(adapted(instances[name]))
            sources[name] = _source_digest(known[name])
        points = {
            point: [instances[name] for name in names] for point, names in resolved.running.items()
        }
        unread += without_effect(resolved.args, known)
        unread += beside_their_substitute(resolved, known)
        profiles[resolved.name] = Profile(
            resolved.name, points, resolved.weights, percentage=resolved.percentage
        )
    digest = blake2b(repr(loaded).encode(), digest_size=16).hexdigest()
    files = {name: _file(known[name]) for name in sources}
    unread = [*resolution.zero_weights(loaded.profiles, known), *unread]
    warnings = (*loaded.warnings, *resolution.misspelt(loaded.profiles, known), *unread)
    make_again = partial(assemble_loaded, loaded, source, known, text, guard)
    return Assembly(loaded, profiles, sources, digest, text, warnings, files, make_again)


def registry(plugin_files: Iterable[Path] = ()) -> dict[str, type[Any]]:
    """Plugin name → class, of all plugins. Raises InputError for a file that cannot be imported or
    holds no plugin, and for a name that is taken."""
    known: dict[str, type[Any]] = dict(IN_TREE)
    for entry in _installed():
        if entry.value.partition(":")[0].startswith("eventsched.plugins."):
            continue
        where = f"entry point {entry.name} = {entry.value}"
        try:
            plugin = entry.load()
        except Exception as problem:
            # The user's package: anything that it raises is bad input.
            raise InputError(
                where, f"does not import: {problem}", "fix or uninstall the package"
            ) from problem
        _add(known, plugin, where)
    for path in plugin_files:
        plugins = _plugins_in(imported(path))
        if not plugins:
            raise InputError(
                str(path),
                "holds no plugin",
                "define a class with a name and a method of an extension point (filter_node…)",
            )
        for plugin in plugins:
            _add(known, plugin, str(path))
    return known


@cache
def _installed() -> tuple[EntryPoint, ...]:
    """The plugins of installed packages. Read once: for a question about the past, a dozen files
    for each package would take longer than the configuration."""
    return tuple(entry_points(group=ENTRY_POINTS))


def misspelt(known: Mapping[str, type[Any]]) -> list[str]:
    """Warnings about methods whose names nearly are those of an extension point."""
    methods = [method for names in POINTS.values() for method in names]
    warnings = []
    for name, plugin in known.items():
        for attribute in vars(plugin) if name not in IN_TREE else ():
            close = get_close_matches(attribute, methods, n=1, cutoff=0.85)
            if close and attribute not in methods:
                warnings.append(f"plugin {name}: method {attribute}: did you mean {close[0]}?")
    return warnings


def _add(known: dict[str, type[Any]], plugin: type[Any], where: str) -> None:
    name = getattr(plugin, "name", None)
    if not isinstance(name, str) or not name:
        raise InputError(where, "the plugin has no name", "give its class the attribute name")
    if name in known and known[name] is not plugin:
        raise InputError(where, f"a plugin named {name} exists already", "choose another name")
    known[name] = plugin
    _source_digest(plugin)


def _plugins_in(module: ModuleType) -> list[type[Any]]:
    return [
        plugin
        for plugin in vars(module).values()
        if inspect.isclass(plugin)
        and plugin.__module__ == module.__name__
        and isinstance(getattr(plugin, "name", None), str)
        and points_of(plugin)
    ]


def _annotations_of(plugin: Any) -> tuple[str, ...]:
    declared = getattr(plugin, "annotations", ())
    if isinstance(declared, str) or not all(isinstance(name, str) and name for name in declared):
        raise InputError(
            f"plugin {plugin.name}: annotations",
            f"is {declared!r}",
            'write a tuple of names, such as ("example.com/team",)',
        )
    return tuple(declared)


def undeclared(known: Mapping[str, type[Any]]) -> list[str]:
    """Warnings about plugins whose code reads annotations but that declare none."""
    warnings = []
    for name, plugin in known.items():
        if name in IN_TREE or hasattr(plugin, "annotations"):
            continue
        try:
            text = inspect.getsource(plugin)
        except (OSError, TypeError):
            continue
        if ".annotations" in text:
            warnings.append(
                f"plugin {name} reads annotations and declares none: they are not kept; give it "
                'the attribute annotations = ("NAME", "PREFIX/")'
            )
    return warnings


def _with_ignored(plugin: type[Any], typed: object | None, loaded: Configuration) -> object | None:
    """The arguments of a plugin. Resources that extenders manage replace ``ignoredResources`` of
    NodeResourcesFit (upstream: scheduler.go buildExtenders)."""
    ignored = ignored_resources(loaded.extenders)
    if plugin is not NodeResourcesFit or not ignored:
        return typed
    args = typed if isinstance(typed, NodeResourcesFitArgs) else NodeResourcesFitArgs()
    return msgspec.structs.replace(args, ignored_resources=ignored)


def _instance(plugin: type[Any], typed: object | None, source: str) -> Any:
    try:
        return plugin(typed) if hasattr(plugin, "Args") else plugin()
    except InputError:
        raise
    except Exception as problem:
        # The user's constructor: anything that it raises is bad input.
        raise InputError(
            f"{source}: plugin {plugin.name}",
            f"cannot be made: {type(problem).__name__}: {problem}",
            "fix its constructor: it takes no argument, or its typed Args",
        ) from problem


def _file(plugin: type[Any]) -> str:
    return getattr(sys.modules.get(plugin.__module__), "__file__", None) or str(plugin.name)


_digests: WeakKeyDictionary[type[Any], str] = WeakKeyDictionary()


def _source_digest(plugin: type[Any]) -> str:
    """A digest of the plugin's file as it was when the plugin was loaded: it may change later."""
    if plugin not in _digests:
        try:
            module = inspect.getmodule(plugin)
            text = inspect.getsource(plugin) if module is None else _source(module)
        except (OSError, TypeError):
            text = plugin.__qualname__  # defined at run time: there is no file to hash
        _digests[plugin] = blake2b(text.encode(), digest_size=16).hexdigest()
    return _digests[plugin]


@lru_cache(maxsize=256)
def _source(module: ModuleType) -> str:
    return inspect.getsource(module)
