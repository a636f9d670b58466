package ocsf

import (
	"encoding/json"

	"holdpoint/engine"
)

// The objects of the schema, as far as they are written. The order of the fields
// is the order on the line.
type (
	event struct {
		Time           int64           `json:"time"`
		CategoryUID    int             `json:"category_uid"`
		ClassUID       int             `json:"class_uid"`
		ClassName      string          `json:"class_name"`
		ActivityID     int             `json:"activity_id"`
		ActivityName   string          `json:"activity_name"`
		TypeUID        int             `json:"type_uid"`
		SeverityID     int             `json:"severity_id"`
		Severity       string          `json:"severity"`
		StatusID       int             `json:"status_id"`
		Status         string          `json:"status"`
		StatusCode     string          `json:"status_code,omitempty"`
		StatusDetail   string          `json:"status_detail,omitempty"`
		ActionID       int             `json:"action_id"`
		Action         string          `json:"action"`
		DispositionID  int             `json:"disposition_id"`
		Disposition    string          `json:"disposition"`
		Authorizations []authorization `json:"authorizations,omitempty"`
		Message        string          `json:"message,omitempty"`
		Metadata       metadata        `json:"metadata"`
		Actor          actor           `json:"actor"`
		SrcEndpoint    endpoint        `json:"src_endpoint"`
		API            *api            `json:"api,omitempty"`
		Resources      []resource      `json:"resources,omitempty"`
		User           *user           `json:"user,omitempty"`
		Service        *service        `json:"service,omitempty"`
		Entity         *entity         `json:"entity,omitempty"`
		Unmapped       *unmapped       `json:"unmapped,omitempty"`
	}
	metadata struct {
		Version        string   `json:"version"`
		Product        Product  `json:"product"`
		Profiles       []string `json:"profiles"`
		UID            string   `json:"uid"`
		Sequence       int64    `json:"sequence,omitempty"`
		EventCode      string   `json:"event_code,omitempty"`
		CorrelationUID string   `json:"correlation_uid,omitempty"`
		LogName        string   `json:"log_name"`
		OriginalTime   string   `json:"original_time"`
	}
	actor struct {
		User user `json:"user"`
	}
	user struct {
		UID    string `json:"uid,omitempty"`
		Name   string `json:"name,omitempty"`
		TypeID int    `json:"type_id"`
		Type   string `json:"type"`
	}
	endpoint struct {
		ServiceName string `json:"svc_name"`
	}
	api struct {
		Operation string    `json:"operation"`
		Service   service   `json:"service"`
		Request   *request  `json:"request,omitempty"`
		Response  *response `json:"response,omitempty"`
	}
	service struct {
		Name string `json:"name"`
	}
	request struct {
		UID string `json:"uid"`
	}
	response struct {
		Code         int    `json:"code"`
		Error        string `json:"error,omitempty"`
		ErrorMessage string `json:"error_message,omitempty"`
	}
	resource struct {
		Type   string `json:"type"`
		UID    string `json:"uid,omitempty"`
		Name   string `json:"name,omitempty"`
		RoleID int    `json:"role_id"`
		Role   string `json:"role"`
	}
	entity struct {
		TypeID int     `json:"type_id"`
		Type   string  `json:"type"`
		UID    string  `json:"uid,omitempty"`
		Name   string  `json:"name,omitempty"`
		Policy *policy `json:"policy,omitempty"`
	}
	policy struct {
		UID string `json:"uid"`
	}
	authorization struct {
		Decision string  `json:"decision,omitempty"`
		Policy   *policy `json:"policy,omitempty"`
	}
	unmapped struct {
		AgentID      string               `json:"agent_id,omitempty"`
		ToolName     string               `json:"tool_name,omitempty"`
		RequestID    string               `json:"request_id,omitempty"`
		DigestHMAC   string               `json:"digest_hmac,omitempty"`
		PrevOutcome  string               `json:"prev_outcome,omitempty"`
		PluginSource string               `json:"plugin_source,omitempty"`
		Reasons      []engine.Reason      `json:"reasons,omitempty"`
		Requirements []engine.Requirement `json:"requirements,omitempty"`
		SafePayload  json.RawMessage      `json:"safe_payload,omitempty"`
	}
)

// named is a number of the schema's and the caption that belongs to it.
type named struct {
	ID   int
	Name string
}
