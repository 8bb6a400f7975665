"""Keys: what a cycle keeps of each node's verdict, as one integer a row.

A refusal's key is filter position * 65536 + the filter's code, so the smallest key of a row is its
first refusal: the one that upstream would have stopped at. Keys mean something within a process
only. What the log holds are ``VerdictCode``s (domain/records/verdicts.py), which have other values;
judgement_recording.py alone translates.
"""

from typing import Final, NewType

import numpy as np
from numpy.typing import NDArray

CycleKey = NewType("CycleKey", int)
"""One row's key."""

Keys = NDArray[np.int32]
"""The CycleKey of each row."""
Totals = NDArray[np.int64]
"""The sum of each row's weighted scores."""

CODES_A_FILTER: Final = 65_536
"""The keys of a filter position: one for each 16-bit code."""

KEY_PASSES: Final = CycleKey(2**31 - 1)
"""No filter refuses the node. The largest key, so that every refusal is smaller."""
KEY_EXCLUDED: Final = CycleKey(KEY_PASSES - 1)
"""PreFilter left the node out."""
KEY_NOT_EVALUATED: Final = CycleKey(KEY_PASSES - 2)
"""The search ended before this node."""
KEY_NO_NODE: Final = CycleKey(-1)
"""The row has no node (any more)."""

NOT_FEASIBLE: Final = -1
"""In a column of totals: the node cannot take the pod."""
