// Package helm lints and renders the chart in deploy/helm by Helm's own library, and holds
// what comes of it against Kubernetes' own types. It is a module of its own, so that Helm is
// no part of Holdpoint.
package helm

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const chart = "../../deploy/helm/holdpoint"

var update = flag.Bool("update", false, "write testdata/rendered.yaml anew")

// installed are values that an installation gives, changed by edit.
func installed(edit func(map[string]any)) map[string]any {
	values := map[string]any{
		"settings": map[string]any{"public_url": "https://holdpoint.example.com", "temporal_address": "temporal-frontend.temporal:7233"},
		"policy":   "version: \"1\"\n",
	}
	if edit != nil {
		edit(values)
	}
	return values
}

// render is what the chart makes of values, one file after another.
func render(t *testing.T, values map[string]any) (string, error) {
	t.Helper()
	c, err := loader.Load(chart)
	if err != nil {
		t.Fatal(err)
	}
	all, err := util.ToRenderValues(c, values, common.ReleaseOptions{Name: "holdpoint", Namespace: "holdpoint", IsInstall: true}, common.DefaultCapabilities.Copy())
	if err != nil {
		return "", err
	}
	files, err := engine.Render(c, all)
	if err != nil {
		return "", err
	}
	var out strings.Builder
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if text := strings.TrimSpace(files[name]); text != "" && filepath.Ext(name) == ".yaml" {
			out.WriteString("---\n" + text + "\n")
		}
	}
	return out.String(), nil
}

// manifests reads what was rendered as Kubernetes does: a field that no type has is a mistake.
func manifests(t *testing.T, text string) map[string]any {
	t.Helper()
	found := map[string]any{}
	for r := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		doc, err := r.Read()
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		var head struct {
			Kind     string
			Metadata struct{ Name, Namespace string }
		}
		if err := yaml.Unmarshal(doc, &head); err != nil {
			t.Fatalf("%v in\n%s", err, doc)
		}
		of := map[string]any{
			"Deployment": &appsv1.Deployment{}, "Job": &batchv1.Job{}, "ConfigMap": &corev1.ConfigMap{}, "Service": &corev1.Service{},
			"PodDisruptionBudget": &policyv1.PodDisruptionBudget{}, "Ingress": &networkingv1.Ingress{},
		}[head.Kind]
		if of == nil {
			t.Fatalf("kind %q in\n%s", head.Kind, doc)
		}
		if err := yaml.UnmarshalStrict(doc, of); err != nil {
			t.Errorf("%s %s: %v", head.Kind, head.Metadata.Name, err)
		}
		name := head.Kind + " " + head.Metadata.Name
		if found[name] != nil || head.Metadata.Namespace != "holdpoint" {
			t.Errorf("%s in namespace %q, twice: %t", name, head.Metadata.Namespace, found[name] != nil)
		}
		found[name] = of
	}
}

// TestLint: Helm's linter has nothing to say, be it only a hint, but that there is no icon.
func TestLint(t *testing.T) {
	for name, values := range map[string]map[string]any{
		"as installed": installed(nil),
		"with everything": installed(func(v map[string]any) {
			v["people"], v["ingress"], v["kms"] = true, map[string]any{"enabled": true, "className": "nginx", "tlsSecret": "tls"}, plugin()
		}),
	} {
		for _, m := range lint.RunAll(chart, values, "holdpoint").Messages {
			if !strings.Contains(m.Err.Error(), "icon is recommended") {
				t.Errorf("%s: %s", name, m)
			}
		}
	}
}

// TestRendered: what is rendered is valid, asks for no powers, and is what is in
// testdata/rendered.yaml, which a test of the settings reads.
func TestRendered(t *testing.T) {
	text, err := render(t, installed(nil))
	if err != nil {
		t.Fatal(err)
	}
	all := manifests(t, text)
	for _, name := range []string{"Deployment holdpoint-serve", "Deployment holdpoint-worker", "Job holdpoint-migrate"} {
		var pod corev1.PodSpec
		switch m := all[name].(type) {
		case *appsv1.Deployment:
			pod = m.Spec.Template.Spec
			for k, v := range m.Spec.Selector.MatchLabels {
				if m.Spec.Template.Labels[k] != v {
					t.Errorf("%s does not select its own pods by %s", name, k)
				}
			}
			if *m.Spec.Replicas != 2 {
				t.Errorf("%s: %d replicas", name, *m.Spec.Replicas)
			}
		case *batchv1.Job:
			pod = m.Spec.Template.Spec
		default:
			t.Fatalf("no %s in\n%s", name, text)
		}
		c := pod.Containers[0]
		if !*pod.SecurityContext.RunAsNonRoot || *c.SecurityContext.AllowPrivilegeEscalation || !*c.SecurityContext.ReadOnlyRootFilesystem || *pod.AutomountServiceAccountToken {
			t.Errorf("%s has powers: %+v %+v", name, pod.SecurityContext, c.SecurityContext)
		}
		mounted := map[string]bool{}
		for _, v := range pod.Volumes {
			mounted[v.Name] = true
		}
		for _, m := range c.VolumeMounts {
			if !mounted[m.Name] {
				t.Errorf("%s mounts %s, which there is not", name, m.Name)
			}
		}
	}
	if service, ok := all["Service holdpoint"].(*corev1.Service); !ok || service.Spec.Selector["app.kubernetes.io/component"] != "serve" {
		t.Errorf("service: %+v", service)
	}

	golden := filepath.Join("testdata", "rendered.yaml")
	if *update {
		if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if want, err := os.ReadFile(golden); err != nil || !bytes.Equal(want, []byte(text)) {
		t.Errorf("%s is not what the chart makes now (%v): go test -update, and look at the difference", golden, err)
	}
}

// TestValues: each value does what it says.
func TestValues(t *testing.T) {
	text, err := render(t, installed(func(v map[string]any) {
		v["people"], v["migrate"], v["policy"], v["policyConfigMap"] = true, false, "", "rules"
		v["image"] = map[string]any{"repository": "registry.example.com/holdpoint", "tag": "1.2.3"}
		v["serve"] = map[string]any{"replicas": 5}
		v["ingress"] = map[string]any{"enabled": true, "className": "nginx", "tlsSecret": "tls"}
	}))
	if err != nil {
		t.Fatal(err)
	}
	all := manifests(t, text)
	serve, worker := all["Deployment holdpoint-serve"].(*appsv1.Deployment), all["Deployment holdpoint-worker"].(*appsv1.Deployment)
	if got := serve.Spec.Template.Spec.Containers[0].Image; got != "registry.example.com/holdpoint:1.2.3" || *serve.Spec.Replicas != 5 || *worker.Spec.Replicas != 2 {
		t.Errorf("image %s, %d and %d replicas", got, *serve.Spec.Replicas, *worker.Spec.Replicas)
	}
	if all["Job holdpoint-migrate"] != nil || all["ConfigMap holdpoint-rules"] != nil {
		t.Error("a migration or a policy that nobody wanted")
	}
	if n := strings.Count(text, "HOLDPOINT_DATABASE_PEOPLE_URL_FILE"); n != 1 {
		t.Errorf("%d processes have the login for people", n)
	}
	both, err := render(t, installed(func(v map[string]any) { v["people"], v["rolesByApproval"] = true, true }))
	if n := strings.Count(both, "HOLDPOINT_DATABASE_PEOPLE_URL_FILE"); err != nil || n != 2 {
		t.Errorf("%d processes have the login for people, %v", n, err)
	}
	ingress, ok := all["Ingress holdpoint"].(*networkingv1.Ingress)
	if !ok || ingress.Spec.Rules[0].Host != "holdpoint.example.com" || ingress.Spec.TLS[0].SecretName != "tls" || *ingress.Spec.IngressClassName != "nginx" {
		t.Errorf("ingress: %+v", ingress)
	}

	// Changed settings start the processes anew; a changed number of them does not.
	sum := func(edit func(map[string]any)) string {
		text, err := render(t, installed(edit))
		if err != nil {
			t.Fatal(err)
		}
		return manifests(t, text)["Deployment holdpoint-worker"].(*appsv1.Deployment).Spec.Template.Annotations["checksum/settings"]
	}
	changed := sum(func(v map[string]any) { v["settings"].(map[string]any)["environment"] = "staging" })
	more := sum(func(v map[string]any) { v["worker"] = map[string]any{"replicas": 3} })
	if first := sum(nil); first == changed || first != more {
		t.Errorf("checksums %s, with other settings %s, with more workers %s", first, changed, more)
	}
}

// plugin is that of a hardware security module.
func plugin() map[string]any {
	return map[string]any{
		"image": "registry.example.com/holdpoint-pkcs11:1.2.3", "args": []any{"--socket", "/run/holdpoint-kms/kms.sock", "pkcs11:object=kek?module-path=/l.so&pin-source=file:/run/pin/pin"},
		"env": []any{map[string]any{"name": "MODULE", "value": "1"}}, "volumes": []any{map[string]any{"name": "pin", "secret": map[string]any{"secretName": "pin"}}},
		"volumeMounts": []any{map[string]any{"name": "pin", "mountPath": "/run/pin", "readOnly": true}},
		"startupProbe": map[string]any{"exec": map[string]any{"command": []any{"test", "-S", "/run/holdpoint-kms/kms.sock"}}, "periodSeconds": 1, "failureThreshold": 60},
	}
}

// TestPlugin: the plugin of a KMS runs beside serve and worker, from before they start, and they
// reach its socket and nothing else that it has; by the chart and by the patches of the plain
// manifests.
func TestPlugin(t *testing.T) {
	text, err := render(t, installed(func(v map[string]any) { v["kms"] = plugin() }))
	if err != nil {
		t.Fatal(err)
	}
	charted := manifests(t, text)
	plain, err := os.ReadFile("../../deploy/kubernetes/holdpoint.yaml")
	if err != nil {
		t.Fatal(err)
	}
	plainly := manifests(t, string(plain))
	for _, part := range []string{"serve", "worker"} {
		before := plainly["Deployment holdpoint-"+part].(*appsv1.Deployment)
		document, err1 := yaml.Marshal(before)
		patch, err2 := os.ReadFile("../../deploy/kubernetes/kms-" + part + ".yaml")
		document, err3 := yaml.YAMLToJSON(document)
		patch, err4 := yaml.YAMLToJSON(patch)
		if err := errors.Join(err1, err2, err3, err4); err != nil {
			t.Fatal(err)
		}
		document, err := strategicpatch.StrategicMergePatch(document, patch, appsv1.Deployment{})
		if err != nil {
			t.Fatal(err)
		}
		var patched appsv1.Deployment
		if err := yaml.UnmarshalStrict(document, &patched); err != nil {
			t.Fatal(err)
		}
		for name, d := range map[string]*appsv1.Deployment{"chart": charted["Deployment holdpoint-"+part].(*appsv1.Deployment), "patch": &patched} {
			pod := d.Spec.Template.Spec
			if len(pod.Containers) != 1 || len(pod.InitContainers) != 1 {
				t.Fatalf("%s of %s: %d and %d containers", name, part, len(pod.Containers), len(pod.InitContainers))
			}
			process, kms := pod.Containers[0], pod.InitContainers[0]
			if kms.RestartPolicy == nil || *kms.RestartPolicy != corev1.ContainerRestartPolicyAlways || *kms.SecurityContext.AllowPrivilegeEscalation || len(kms.Args) != 3 || kms.Args[1] != "/run/holdpoint-kms/kms.sock" {
				t.Errorf("%s of %s: %+v", name, part, kms)
			}
			if p := kms.StartupProbe; p == nil || p.Exec == nil || !slices.Equal(p.Exec.Command, []string{"test", "-S", kms.Args[1]}) || p.PeriodSeconds*p.FailureThreshold != 60 {
				t.Errorf("%s of %s: it starts by %+v", name, part, p)
			}
			if !slices.Contains(process.Env, corev1.EnvVar{Name: "HOLDPOINT_KMS", Value: "unix:///run/holdpoint-kms/kms.sock"}) {
				t.Errorf("%s of %s: it is told of no KMS", name, part)
			}
			shared := 0
			for _, m := range kms.VolumeMounts {
				i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
				if i < 0 {
					t.Fatalf("%s of %s mounts %s, which there is not", name, part, m.Name)
				}
				at := slices.IndexFunc(process.VolumeMounts, func(own corev1.VolumeMount) bool { return own.Name == m.Name })
				switch {
				case at < 0:
				case pod.Volumes[i].EmptyDir == nil || !process.VolumeMounts[at].ReadOnly || m.ReadOnly || m.MountPath != "/run/holdpoint-kms":
					t.Errorf("%s of %s shares %s", name, part, m.Name)
				default:
					shared++
				}
			}
			if shared != 1 || len(kms.VolumeMounts) != 2 {
				t.Errorf("%s of %s shares %d of %d", name, part, shared, len(kms.VolumeMounts))
			}
		}
	}
}

// TestMistakes: what is missing or wrong is said before anything is installed.
func TestMistakes(t *testing.T) {
	for _, of := range []struct {
		what string
		edit func(map[string]any)
		want string
	}{
		{"no public_url", func(v map[string]any) { delete(v["settings"].(map[string]any), "public_url") }, "public_url"},
		{"public_url without TLS", func(v map[string]any) { v["settings"].(map[string]any)["public_url"] = "http://holdpoint.example.com" }, "public_url"},
		{"no temporal_address", func(v map[string]any) { delete(v["settings"].(map[string]any), "temporal_address") }, "temporal_address"},
		{"no policy", func(v map[string]any) { delete(v, "policy") }, "policy: give its text"},
		{"two policies", func(v map[string]any) { v["policyConfigMap"] = "rules" }, "give one of them"},
		{"a secret among the settings", func(v map[string]any) { v["settings"].(map[string]any)["data_key"] = "c2VjcmV0" }, "settings"},
		{"a value that there is not", func(v map[string]any) { v["replicas"] = 3 }, "replicas"},
		{"a plugin's field that there is not", func(v map[string]any) { v["kms"] = map[string]any{"img": "x"} }, "img"},
		{"no replica", func(v map[string]any) { v["serve"] = map[string]any{"replicas": 0} }, "replicas"},
	} {
		if text, err := render(t, installed(of.edit)); err == nil || !strings.Contains(err.Error(), of.want) {
			t.Errorf("%s: %v, want %q\n%s", of.what, err, of.want, text)
		}
	}
}
