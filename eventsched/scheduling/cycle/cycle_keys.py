"""Keys: each node's verdict in a scheduling cycle, as one integer for each row.

A refusal's key is filter position * 65536 + the filter's code, so the smallest key of a row is its
first refusal: the one at which upstream stops. Keys are valid only within a process. The log holds
``VerdictCode``s (domain/records/verdicts.py), which have other values; only judgement_recording.py
translates between them.
"""

from typing import Final, NewType

import numpy as np
from numpy.typing import NDArray

CycleKey = NewType("CycleKey", int)
"""The key of one row."""

Keys = NDArray[np.int32]
"""The CycleKey of each row."""
Totals = NDArray[np.int64]
"""The sum of each row's weighted scores."""

CODES_A_FILTER: Final = 65_536
"""The number of keys of a filter position: one for each 16-bit code."""

KEY_PASSES: Final = CycleKey(2**31 - 1)
"""No filter refuses the node. The largest key, so that every refusal is smaller."""
KEY_EXCLUDED: Final = CycleKey(KEY_PASSES - 1)
"""PreFilter left the node out."""
KEY_NOT_EVALUATED: Final = CycleKey(KEY_PASSES - 2)
"""The search ended before this node."""
KEY_NO_NODE: Final = CycleKey(-1)
"""The row has no node, or no longer has one."""

NOT_FEASIBLE: Final = -1
"""In a column of totals: the node cannot take the pod."""
