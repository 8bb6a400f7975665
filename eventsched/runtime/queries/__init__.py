"""Questions to an engine that nothing is logged for.

``placement_query`` says where a pod would go now; ``scenario_evaluation`` answers files of
scenarios.
"""
