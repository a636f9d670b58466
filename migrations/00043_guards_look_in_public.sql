-- +goose Up
-- What holds changes until they are approved reads tables by their names. Where the login of serve
-- may make temporary tables, which 00001 ends if the migrator may, one of the same name would
-- have stood in front of ours.
-- +goose StatementBegin
DO $$
DECLARE
    one regprocedure;
BEGIN
    FOR one IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.proname IN (
        'guarded', 'approved_entry', 'change_approved', 'active_documents_guard', 'people_roles_guard', 'delegations_roles_guard', 'on_call_guard',
        'settings_guard', 'registered_guard', 'endpoints_guard', 'legal_holds_release_guard', 'retention_floor_guard')
    LOOP
        EXECUTE format('ALTER FUNCTION %s SET search_path = pg_catalog, public, pg_temp', one);
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
    one regprocedure;
BEGIN
    FOR one IN SELECT p.oid FROM pg_proc p WHERE p.pronamespace = 'public'::regnamespace AND p.proname IN (
        'guarded', 'approved_entry', 'change_approved', 'active_documents_guard', 'people_roles_guard', 'delegations_roles_guard', 'on_call_guard',
        'settings_guard', 'registered_guard', 'endpoints_guard', 'legal_holds_release_guard', 'retention_floor_guard')
    LOOP
        EXECUTE format('ALTER FUNCTION %s RESET search_path', one);
    END LOOP;
END
$$;
-- +goose StatementEnd
