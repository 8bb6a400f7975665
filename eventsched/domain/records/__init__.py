"""What a log holds: stimuli (what happened outside) and events (what was decided).

Start with ``record_catalogue``: a row for each kind, and the union of all. ``stimuli`` has the
facts that come in, ``events`` the decisions, ``extender_records`` both kinds about extenders,
``placement_comparison`` what a shadow finds, ``effects`` what is sent once a record is committed,
``verdicts`` the vectors that are stored beside a decision, ``record_codec`` the bytes. A new kind
of record begins here; kinds are imported from this package, not from its modules. Every package may
import this one; it imports only ``objects`` and ``eventsched.domain``.
"""

from eventsched.domain.records.effects import Bind as Bind
from eventsched.domain.records.effects import Consult as Consult
from eventsched.domain.records.effects import Effect as Effect
from eventsched.domain.records.effects import Evict as Evict
from eventsched.domain.records.effects import Prepare as Prepare
from eventsched.domain.records.events import BindIntended as BindIntended
from eventsched.domain.records.events import MemoryChanged as MemoryChanged
from eventsched.domain.records.events import MoveCause as MoveCause
from eventsched.domain.records.events import NodeOvercommitted as NodeOvercommitted
from eventsched.domain.records.events import NominationCleared as NominationCleared
from eventsched.domain.records.events import Outcome as Outcome
from eventsched.domain.records.events import PermitGranted as PermitGranted
from eventsched.domain.records.events import PodBound as PodBound
from eventsched.domain.records.events import PodDecided as PodDecided
from eventsched.domain.records.events import PodQueued as PodQueued
from eventsched.domain.records.events import PodSkipped as PodSkipped
from eventsched.domain.records.events import PodUnreserved as PodUnreserved
from eventsched.domain.records.events import PreemptionDecided as PreemptionDecided
from eventsched.domain.records.events import PreparationIntended as PreparationIntended
from eventsched.domain.records.events import Queue as Queue
from eventsched.domain.records.events import ScoringDefined as ScoringDefined
from eventsched.domain.records.events import VerdictDefined as VerdictDefined
from eventsched.domain.records.extender_records import ExtenderAnswered as ExtenderAnswered
from eventsched.domain.records.extender_records import ExtenderAsked as ExtenderAsked
from eventsched.domain.records.extender_records import ExtenderInquired as ExtenderInquired
from eventsched.domain.records.extender_records import ExtenderReplied as ExtenderReplied
from eventsched.domain.records.extender_records import Victims as Victims
from eventsched.domain.records.placement_comparison import PlacementCompared as PlacementCompared
from eventsched.domain.records.placement_comparison import PlacementMatch as PlacementMatch
from eventsched.domain.records.record import Event as Event
from eventsched.domain.records.record import Record as Record
from eventsched.domain.records.record import Stimulus as Stimulus
from eventsched.domain.records.record_catalogue import AnyRecord as AnyRecord
from eventsched.domain.records.record_codec import FORMAT as FORMAT
from eventsched.domain.records.record_codec import decode as decode
from eventsched.domain.records.record_codec import encode as encode
from eventsched.domain.records.stimuli import BindFailed as BindFailed
from eventsched.domain.records.stimuli import BindRetried as BindRetried
from eventsched.domain.records.stimuli import BindSucceeded as BindSucceeded
from eventsched.domain.records.stimuli import BindVoided as BindVoided
from eventsched.domain.records.stimuli import EvictionFailed as EvictionFailed
from eventsched.domain.records.stimuli import EvictionSucceeded as EvictionSucceeded
from eventsched.domain.records.stimuli import HistoryLost as HistoryLost
from eventsched.domain.records.stimuli import MemoryForgotten as MemoryForgotten
from eventsched.domain.records.stimuli import NodeAdded as NodeAdded
from eventsched.domain.records.stimuli import NodeDeleted as NodeDeleted
from eventsched.domain.records.stimuli import NodeUpdated as NodeUpdated
from eventsched.domain.records.stimuli import ObjectChanged as ObjectChanged
from eventsched.domain.records.stimuli import ObjectDeleted as ObjectDeleted
from eventsched.domain.records.stimuli import PartitionSealed as PartitionSealed
from eventsched.domain.records.stimuli import PluginOverran as PluginOverran
from eventsched.domain.records.stimuli import PodAdded as PodAdded
from eventsched.domain.records.stimuli import PodDeleted as PodDeleted
from eventsched.domain.records.stimuli import PodUpdated as PodUpdated
from eventsched.domain.records.stimuli import SamplesTaken as SamplesTaken
from eventsched.domain.records.stimuli import StreamStarted as StreamStarted
from eventsched.domain.records.stimuli import TermBegan as TermBegan
from eventsched.domain.records.stimuli import TimePassed as TimePassed
from eventsched.domain.records.stimuli import WatchRelisted as WatchRelisted
from eventsched.domain.records.stimuli import WriteFailed as WriteFailed
from eventsched.domain.records.stimuli import WriteSucceeded as WriteSucceeded
