package evidence

import (
	"fmt"
	"io"

	"holdpoint/engine/audit"
	"holdpoint/engine/dialect/safeai"
	"holdpoint/engine/policy"
)

// meanings compute what documents mean, by kind: the digest that rulesets name.
var meanings = map[string]func([]byte) (string, error){
	audit.ItemPolicy: func(text []byte) (string, error) {
		b, problems := policy.Load(text, policy.Options{})
		if b == nil {
			return "", fmt.Errorf("it cannot be read: %s", problems[0])
		}
		return b.Digest, nil
	},
	audit.ItemContracts: func(text []byte) (string, error) {
		s, problems := safeai.Load(text, "contracts")
		if len(problems) > 0 {
			return "", fmt.Errorf("it cannot be read: %s", problems[0])
		}
		return s.Digest(), nil
	},
}

// isDocument reports whether a text is the document that a digest names.
func isDocument(kind, digest string, text []byte) bool {
	if kind == audit.ItemRules {
		return audit.Digest(text) == digest
	}
	is, err := meanings[kind](text)
	return err == nil && is == digest
}

// Verify checks an evidence pack with the keys, and against the former checkpoints,
// of a verifier that has checked nothing yet. It asks nobody. An error says that it
// could not be checked; what is wrong with it is in the report.
func Verify(in io.Reader, verifier *audit.Verifier) (audit.Report, audit.Disclosure, error) {
	p := &audit.PackVerifier{Verifier: *verifier, Means: meanings}
	if err := p.Read(in); err != nil {
		return audit.Report{}, audit.Disclosure{}, err
	}
	report, disclosed := p.Done()
	return report, disclosed, nil
}
