COMMENT ON FUNCTION eventsched_log.pod_owner IS 'The owner of a pod, from the record that added it';
COMMENT ON VIEW eventsched_log.acting_stream IS
    'The streams that views show, without those of shadows';
COMMENT ON VIEW eventsched.starving_pods IS
    'Pods that have waited ten minutes or longer while pods of the same or a lower priority that '
    'came later were placed, and are still there';
COMMENT ON COLUMN eventsched.starving_pods.waiting_since IS
    'When it first came into a queue with its gates open';
COMMENT ON COLUMN eventsched.starving_pods.overtaken_by IS
    'How many pods were placed that came later and are no more important, and are still there';
COMMENT ON VIEW eventsched.ping_pongs IS
    'Workloads whose pods were evicted, replaced and evicted again within an hour, and pods that '
    'were nominated three times within an hour without finding a node';
COMMENT ON COLUMN eventsched.ping_pongs.kind IS
    'evicted: a workload, with its pod that was evicted last; nominated: a pod';
COMMENT ON COLUMN eventsched.ping_pongs.times IS
    'How often in the hour before until: evictions of its pods, or nominations';
COMMENT ON COLUMN eventsched.ping_pongs.seq IS 'Position of the last preemption';
COMMENT ON VIEW eventsched.preempted_for_nothing IS
    'Preemptions whose victims went although the pod did not come to that node';
COMMENT ON COLUMN eventsched.preempted_for_nothing.pod IS 'The pod that they had to leave for';
COMMENT ON COLUMN eventsched.preempted_for_nothing.victims IS
    'How many victims were gone by then: evictions has their names';
COMMENT ON COLUMN eventsched.preempted_for_nothing.outcome IS
    'elsewhere: placed on landed_on; gone: deleted before it was placed';
COMMENT ON VIEW eventsched.shadow_decisions IS
    'Pods of another scheduler, with the node that it chose and the one that the shadow chose';
COMMENT ON COLUMN eventsched.shadow_decisions.outcome IS
    'same, different, only_there (none chosen here), only_here (deleted before it was bound), '
    'undecided (bound before it was decided here)';
COMMENT ON COLUMN eventsched.shadow_decisions.node IS 'The node that the pod is on';
COMMENT ON COLUMN eventsched.shadow_decisions.chosen IS 'The node that the shadow chose';
COMMENT ON COLUMN eventsched.shadow_decisions.feasible IS
    'Whether the filters of the shadow let the pod onto node; if not, plugin refuses it';
COMMENT ON COLUMN eventsched.shadow_decisions.decided_seq IS
    'Position of the shadow''s attempt: see verdicts() and scores()';
