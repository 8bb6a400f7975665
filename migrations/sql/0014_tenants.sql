-- What tenants may read: the decisions about pods of the namespaces that the operator grants them,
-- by functions. A function, unlike a view with a filter, gives nothing away by EXPLAIN, by the
-- planner's statistics, or to functions that the tenant puts into a WHERE; and it asks by index.
-- client_min_messages: plans that debug_print_plan shows would contain estimates, as EXPLAIN does.

-- No part of the log. Stream '': every stream.
CREATE TABLE eventsched_log.tenant_grant (
    role      text NOT NULL,
    namespace text NOT NULL,
    stream    text NOT NULL DEFAULT '',
    PRIMARY KEY (role, namespace, stream)
);

-- What makes the ids of other tenants' pods. Nobody but the owner reads it.
CREATE TABLE eventsched_log.tenant_secret (
    is_it  boolean PRIMARY KEY DEFAULT true CHECK (is_it),
    secret bytea NOT NULL
);
INSERT INTO eventsched_log.tenant_secret (secret)
VALUES (sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid())));

-- The same pod always has the same id; without the secret it cannot be worked out from a uid.
CREATE FUNCTION eventsched_log.opaque_id(p_uid uuid) RETURNS text
LANGUAGE plpgsql STABLE SET search_path = pg_catalog, pg_temp AS $$
BEGIN
    RETURN 'pod-' || left(encode(sha256(
        (SELECT secret FROM eventsched_log.tenant_secret) || uuid_send(p_uid)), 'hex'), 20);
END $$;

-- The namespaces of the role that was taken on (SET ROLE), or else of who has connected, and of the
-- roles whose rights it has. Only for functions with the owner's rights: current_user is the owner.
CREATE FUNCTION eventsched_log.granted_namespaces(p_namespace text)
RETURNS TABLE (stream text, namespace text)
LANGUAGE plpgsql STABLE ROWS 10 SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    v_role name := coalesce(nullif(current_setting('role'), 'none'), session_user);
BEGIN
    RETURN QUERY
    SELECT DISTINCT s.name, g.namespace
    FROM eventsched_log.tenant_grant g
    JOIN pg_roles r ON r.rolname = g.role
    JOIN eventsched_log.chosen_stream s ON g.stream IN ('', s.name)
    WHERE pg_has_role(v_role, r.oid, 'USAGE')
      AND (p_namespace IS NULL OR g.namespace = p_namespace);
END $$;

CREATE FUNCTION eventsched.tenant_pods_now(p_namespace text DEFAULT NULL, p_pod text DEFAULT NULL)
RETURNS SETOF eventsched.pods_now
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning AS $$
BEGIN
    RETURN QUERY SELECT v.* FROM eventsched.pods_now v
    JOIN eventsched_log.granted_namespaces(p_namespace) g
        ON g.stream = v.stream AND g.namespace = v.namespace
    WHERE p_pod IS NULL OR v.pod = p_pod;
END $$;

CREATE FUNCTION eventsched.tenant_decisions(p_namespace text DEFAULT NULL, p_pod text DEFAULT NULL)
RETURNS SETOF eventsched.decisions
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning AS $$
BEGIN
    RETURN QUERY SELECT v.* FROM eventsched.decisions v
    JOIN eventsched_log.granted_namespaces(p_namespace) g
        ON g.stream = v.stream AND g.namespace = v.namespace
    WHERE p_pod IS NULL OR v.pod = p_pod;
END $$;

CREATE FUNCTION eventsched.tenant_queue_moves(
    p_namespace text DEFAULT NULL, p_pod text DEFAULT NULL
) RETURNS SETOF eventsched.queue_moves
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning AS $$
BEGIN
    RETURN QUERY SELECT v.* FROM eventsched.queue_moves v
    JOIN eventsched_log.granted_namespaces(p_namespace) g
        ON g.stream = v.stream AND g.namespace = v.namespace
    WHERE p_pod IS NULL OR v.pod = p_pod;
END $$;

CREATE FUNCTION eventsched.tenant_bindings(p_namespace text DEFAULT NULL, p_pod text DEFAULT NULL)
RETURNS SETOF eventsched.bindings
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning AS $$
BEGIN
    RETURN QUERY SELECT v.* FROM eventsched.bindings v
    JOIN eventsched_log.granted_namespaces(p_namespace) g
        ON g.stream = v.stream AND g.namespace = v.namespace
    WHERE p_pod IS NULL OR v.pod = p_pod;
END $$;

CREATE FUNCTION eventsched.tenant_refusals(p_namespace text DEFAULT NULL, p_pod text DEFAULT NULL)
RETURNS SETOF eventsched.refusals
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning AS $$
BEGIN
    RETURN QUERY
    SELECT d.stream, d.seq, d.at, d.namespace, d.pod, d.pod_uid, d.attempt, r.plugin, r.code,
           r.reason, r.nodes
    FROM eventsched.tenant_decisions(p_namespace, p_pod) d
    CROSS JOIN LATERAL eventsched.refusals(d.stream, d.seq) r;
END $$;

CREATE FUNCTION eventsched.tenant_verdicts(p_stream text, p_seq bigint)
RETURNS TABLE (node text, plugin text, code text, reason text)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning AS $$
BEGIN
    IF EXISTS (SELECT FROM eventsched.decisions d
               JOIN eventsched_log.granted_namespaces(NULL) g
                   ON g.stream = d.stream AND g.namespace = d.namespace
               WHERE d.stream = p_stream AND d.seq = p_seq) THEN
        RETURN QUERY SELECT v.node, v.plugin, v.code, v.reason
                     FROM eventsched.verdicts(p_stream, p_seq) v;
    END IF;
END $$;

-- The pods that were ever bound to a node: the tenant's own by name, others by opaque id.
CREATE FUNCTION eventsched.tenant_neighbours(p_node text)
RETURNS TABLE (stream text, node text, namespace text, pod text, bound_at timestamptz,
               gone_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning AS $$
BEGIN
    RETURN QUERY
    SELECT b.stream, b.node, g.namespace,
           CASE WHEN g.namespace IS NULL THEN eventsched_log.opaque_id(b.pod_uid) ELSE b.pod END,
           b.bound_at, b.gone_at
    FROM eventsched.bindings b
    LEFT JOIN eventsched_log.granted_namespaces(NULL) g
        ON g.stream = b.stream AND g.namespace = b.namespace
    WHERE b.node = p_node
      AND b.stream IN (SELECT h.stream FROM eventsched_log.granted_namespaces(NULL) h);
END $$;

-- The evictions by preemption that concern the tenant's pods, as victims or as preemptors; pods of
-- others by opaque id.
CREATE FUNCTION eventsched.tenant_evictions()
RETURNS TABLE (stream text, namespace text, pod text, node text, preemptor_namespace text,
               preemptor text, decided_seq bigint, decided_at timestamptz, outcome text,
               gone_at timestamptz)
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning AS $$
BEGIN
    RETURN QUERY
    SELECT e.stream, v.namespace,
           CASE WHEN v.namespace IS NULL THEN eventsched_log.opaque_id(e.pod_uid) ELSE e.pod END,
           e.node, w.namespace,
           CASE WHEN w.namespace IS NULL THEN eventsched_log.opaque_id(e.preemptor_uid)
                ELSE m.name END,
           e.decided_seq, e.decided_at, e.outcome, e.gone_at
    FROM eventsched.evictions e
    JOIN eventsched_log.stream s ON s.name = e.stream
    LEFT JOIN eventsched_log.pod m ON m.stream = s.id AND m.uid = e.preemptor_uid
    LEFT JOIN eventsched_log.granted_namespaces(NULL) v
        ON v.stream = e.stream AND v.namespace = e.namespace
    LEFT JOIN eventsched_log.granted_namespaces(NULL) w
        ON w.stream = e.stream AND w.namespace = m.namespace
    WHERE v.namespace IS NOT NULL OR w.namespace IS NOT NULL;
END $$;

COMMENT ON TABLE eventsched_log.tenant_grant IS
    'Which tenants see the decisions of which namespaces; stream '''': every stream';
COMMENT ON TABLE eventsched_log.tenant_secret IS 'The key of the ids that tenants see of other pods';
COMMENT ON FUNCTION eventsched_log.opaque_id IS 'The id of a pod for tenants who may not see its name';
COMMENT ON FUNCTION eventsched_log.granted_namespaces IS
    'The streams and namespaces that the calling tenant may see';
COMMENT ON FUNCTION eventsched.tenant_pods_now IS
    'The rows of view pods_now of the tenant''s namespaces, of one namespace or pod name if given';
COMMENT ON FUNCTION eventsched.tenant_decisions IS
    'The rows of view decisions of the tenant''s namespaces, of one namespace or pod name if given';
COMMENT ON FUNCTION eventsched.tenant_queue_moves IS
    'The rows of view queue_moves of the tenant''s namespaces, of one namespace or pod name if given';
COMMENT ON FUNCTION eventsched.tenant_bindings IS
    'The rows of view bindings of the tenant''s namespaces, of one namespace or pod name if given';
COMMENT ON FUNCTION eventsched.tenant_refusals IS
    'The rows of view refusals of the tenant''s namespaces, of one namespace or pod name if given';
COMMENT ON FUNCTION eventsched.tenant_verdicts IS
    'The verdict on each node in a decision about one of the tenant''s pods';
COMMENT ON FUNCTION eventsched.tenant_neighbours IS
    'The pods that were bound to a node: the tenant''s own by name, others by opaque id';
COMMENT ON FUNCTION eventsched.tenant_evictions IS
    'The evictions that concern the tenant''s pods; pods of others by opaque id';
