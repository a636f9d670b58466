-- +goose Up
-- Each page of an inbox says how the last calls like its own were decided, and what approved ones named. Calls
-- that were accepted with a token have rows here as well, any number of them, and are not meant: these indexes had
-- them, so that looking for fifteen that people had decided walked all that came in between.
DROP INDEX approvals_decided;
CREATE INDEX approvals_decided ON approvals (agent_id, tool, ended_at DESC) INCLUDE (status)
    WHERE status = 'denied' OR status = 'approved' AND NOT terms ? 'accepted_as';
DROP INDEX approvals_approved_tool;
CREATE INDEX approvals_approved_tool ON approvals (tool, ended_at DESC) WHERE status = 'approved' AND NOT terms ? 'accepted_as';

-- +goose Down
DROP INDEX approvals_approved_tool;
CREATE INDEX approvals_approved_tool ON approvals (tool, ended_at DESC) WHERE status = 'approved';
DROP INDEX approvals_decided;
CREATE INDEX approvals_decided ON approvals (agent_id, tool, ended_at DESC) WHERE status IN ('approved', 'denied');
