-- What tenants see of them: rows about pods of their own namespaces. None of the columns names a pod
-- of others.

CREATE FUNCTION eventsched.tenant_starving_pods(
    p_namespace text DEFAULT NULL, p_pod text DEFAULT NULL
) RETURNS SETOF eventsched.starving_pods
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning AS $$
BEGIN
    RETURN QUERY SELECT v.* FROM eventsched.starving_pods v
    JOIN eventsched_log.granted_namespaces(p_namespace) g
        ON g.stream = v.stream AND g.namespace = v.namespace
    WHERE p_pod IS NULL OR v.pod = p_pod;
END $$;

CREATE FUNCTION eventsched.tenant_ping_pongs(
    p_namespace text DEFAULT NULL, p_pod text DEFAULT NULL
) RETURNS SETOF eventsched.ping_pongs
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning AS $$
BEGIN
    RETURN QUERY SELECT v.* FROM eventsched.ping_pongs v
    JOIN eventsched_log.granted_namespaces(p_namespace) g
        ON g.stream = v.stream AND g.namespace = v.namespace
    WHERE p_pod IS NULL OR v.pod = p_pod;
END $$;

CREATE FUNCTION eventsched.tenant_preempted_for_nothing(
    p_namespace text DEFAULT NULL, p_pod text DEFAULT NULL
) RETURNS SETOF eventsched.preempted_for_nothing
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning AS $$
BEGIN
    RETURN QUERY SELECT v.* FROM eventsched.preempted_for_nothing v
    JOIN eventsched_log.granted_namespaces(p_namespace) g
        ON g.stream = v.stream AND g.namespace = v.namespace
    WHERE p_pod IS NULL OR v.pod = p_pod;
END $$;

CREATE FUNCTION eventsched.tenant_shadow_decisions(
    p_namespace text DEFAULT NULL, p_pod text DEFAULT NULL
) RETURNS SETOF eventsched.shadow_decisions
LANGUAGE plpgsql STABLE SECURITY DEFINER SET search_path = pg_catalog, pg_temp
SET client_min_messages = warning AS $$
BEGIN
    RETURN QUERY SELECT v.* FROM eventsched.shadow_decisions v
    JOIN eventsched_log.granted_namespaces(p_namespace) g
        ON g.stream = v.stream AND g.namespace = v.namespace
    WHERE p_pod IS NULL OR v.pod = p_pod;
END $$;

COMMENT ON FUNCTION eventsched.tenant_starving_pods IS
    'Rows of starving_pods of the tenant''s namespaces';
COMMENT ON FUNCTION eventsched.tenant_ping_pongs IS
    'Rows of ping_pongs of the tenant''s namespaces';
COMMENT ON FUNCTION eventsched.tenant_preempted_for_nothing IS
    'Rows of preempted_for_nothing of the tenant''s namespaces';
COMMENT ON FUNCTION eventsched.tenant_shadow_decisions IS
    'Rows of shadow_decisions of the tenant''s namespaces';
