"""Why preemption did not help, in upstream's words. Explanations look for them in messages, and
import this module alone, because ``evaluator`` imports a large part of the scheduler."""

NEVER = "not eligible due to preemptionPolicy=Never."
NO_VICTIMS = "No preemption victims found for incoming pod"
NOT_HELPFUL = "Preemption is not helpful for scheduling"
QUOTA = "global quota max exceeded"
