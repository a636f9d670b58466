package engine

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// written are the bytes that encoding/json writes as they are, in ASCII.
var written = func() (as [256]bool) {
	for c := ' '; c <= '~'; c++ {
		as[c] = !strings.ContainsRune(`"\<>&`, c)
	}
	return as
}()

// AppendJSONString appends s as encoding/json writes it.
func AppendJSONString[T ~string](dst []byte, s T) []byte {
	for i := range len(s) {
		if !written[s[i]] {
			encoded, err := json.Marshal(string(s))
			if err != nil {
				encoded = []byte(`""`) // every text encodes
			}
			return append(dst, encoded...)
		}
	}
	dst = append(dst, '"')
	dst = append(dst, s...)
	return append(dst, '"')
}

// AppendJSONStrings appends list as encoding/json writes it when it is not nil.
func AppendJSONStrings[T ~string](dst []byte, list []T) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = AppendJSONString(dst, s)
	}
	return append(dst, ']')
}

// AppendJSON appends the event as encoding/json writes it, without its reflection: the
// gate writes one for each call. The error is that a part of it cannot be encoded.
func (e *Event) AppendJSON(dst []byte) ([]byte, error) {
	dst = AppendJSONString(append(dst, `{"event_id":`...), e.ID)
	if e.Seq != 0 {
		dst = strconv.AppendInt(append(dst, `,"seq":`...), e.Seq, 10)
	}
	var err error
	if !e.Timestamp.IsZero() {
		if dst, err = appendEncoded(append(dst, `,"timestamp":`...), e.Timestamp); err != nil {
			return nil, err
		}
	}
	dst = AppendJSONString(append(dst, `,"type":`...), e.Type)
	dst = AppendJSONString(append(dst, `,"request_id":`...), e.RequestID)
	dst = AppendJSONString(append(dst, `,"agent_id":`...), e.AgentID)
	dst = AppendJSONString(append(dst, `,"tool_name":`...), e.ToolName)
	dst = AppendJSONString(append(dst, `,"outcome":`...), e.Outcome)
	dst = append(dst, `,"reasons":`...)
	if e.Reasons == nil {
		dst = append(dst, "null"...)
	} else {
		dst = append(dst, '[')
		for i, r := range e.Reasons {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = AppendJSONString(append(dst, `{"code":`...), r.Code)
			dst = AppendJSONString(append(dst, `,"message":`...), r.Message)
			dst = append(dst, '}')
		}
		dst = append(dst, ']')
	}
	if dst, err = appendRaw(append(dst, `,"safe_payload":`...), e.SafePayload); err != nil {
		return nil, err
	}
	dst = appendGiven(dst, `,"plugin_source":`, e.PluginSource)
	dst = appendGiven(dst, `,"approval_id":`, e.ApprovalID)
	dst = AppendJSONString(append(dst, `,"actor":{"kind":`...), e.Actor.Kind)
	dst = AppendJSONString(append(dst, `,"id":`...), e.Actor.ID)
	dst = append(appendGiven(dst, `,"channel":`, e.Actor.Channel), '}')
	dst = appendGiven(dst, `,"digest_hmac":`, e.DigestHMAC)
	dst = appendGiven(dst, `,"policy_digest":`, e.PolicyDigest)
	if len(e.Requirements) > 0 {
		if dst, err = appendEncoded(append(dst, `,"requirements":`...), e.Requirements); err != nil {
			return nil, err
		}
	}
	dst = appendGiven(dst, `,"prev_outcome":`, e.PrevOutcome)
	return append(dst, '}'), nil
}

// appendGiven appends a member that is left out when it is empty.
func appendGiven[T ~string](dst []byte, name string, s T) []byte {
	if s == "" {
		return dst
	}
	return AppendJSONString(append(dst, name...), s)
}

// lineSeparator begins U+2028 and U+2029.
var lineSeparator = []byte("\u2028")[:2]

// appendRaw appends what is JSON as encoding/json does, which takes blanks out, checks it, and
// escapes what means something in HTML.
func appendRaw(dst []byte, raw json.RawMessage) ([]byte, error) {
	if raw == nil || bytes.ContainsAny(raw, "<>&") || bytes.Contains(raw, lineSeparator) {
		return appendEncoded(dst, raw)
	}
	compact := bytes.NewBuffer(dst)
	if err := json.Compact(compact, raw); err != nil {
		return appendEncoded(dst, raw) // which says it better
	}
	return compact.Bytes(), nil
}

func appendEncoded(dst []byte, v any) ([]byte, error) {
	encoded, err := json.Marshal(v)
	return append(dst, encoded...), err
}
