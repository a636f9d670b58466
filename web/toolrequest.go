package web

import (
	"encoding/json"
	"time"

	"holdpoint/engine/dialect/threegate"
	"holdpoint/internal/gate"
	"holdpoint/web/views"
)

// toolRequest shows the document of a tool request, or nil where the call is
// none or has been erased. cut is whether long arguments are shown in part.
func toolRequest(c gate.Card, cut bool) *views.ToolRequest {
	if c.Approval.Call.Dialect != gate.DialectThreeGate || c.Arguments == nil {
		return nil
	}
	var sealed struct {
		Document string `json:"document"`
	}
	if json.Unmarshal(c.Arguments, &sealed) != nil || sealed.Document == "" {
		return nil
	}
	v := &views.ToolRequest{Document: views.Text(sealed.Document)}
	if cut {
		v.Document, _, _ = v.Document.Preview(previewLines, previewRunes)
	}
	report := threegate.JudgeDraft([]byte(sealed.Document), c.Approval.Plan.OpenedAt)
	if !report.Valid {
		v.Invalid = true
		return v
	}
	r := report.Request
	v.RequestID, v.CreatedAt, v.Purpose, v.Constraints = r.RequestID, r.CreatedUTC, r.Purpose, r.Constraints
	v.Drafted = map[string]string{"human": "drafted by a person", "core_draft": "drafted by a machine"}[r.RequestedBy]
	v.Command, v.Program, v.Language = r.Command.Line, r.Command.Program, r.Language
	v.Network, v.Hosts, v.NetworkRationale = r.Network != "none", r.NetworkAllowlist, r.Risk.NetworkRationale
	v.CPU = "CPU " + r.CPULimit + " of a core"
	if r.CPULimit != "" && r.CPULimit[0] != '0' {
		v.CPU = "CPU " + r.CPULimit + " cores"
	}
	v.Memory = views.Thousands(r.MemoryLimitMB) + " MB of memory"
	v.Time = brief(time.Duration(r.TimeLimitSec) * time.Second)
	v.Risk, v.Sensitivity, v.Why = r.Risk.Level, r.Risk.DataSensitivity, r.Risk.Justification
	for _, in := range r.Inputs {
		v.Inputs = append(v.Inputs, views.ToolFile{Name: "/in/" + in.Name, Note: "SHA-256 " + in.SHA256})
	}
	for _, out := range r.OutputsExpected {
		v.Outputs = append(v.Outputs, views.ToolFile{Name: out.Path, Note: out.Description})
	}
	return v
}
