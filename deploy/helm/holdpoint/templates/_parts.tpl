{{- define "holdpoint.labels" -}}
app.kubernetes.io/name: holdpoint
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "holdpoint.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{- define "holdpoint.policy" -}}
{{- if and .Values.policy .Values.policyConfigMap }}{{ fail "policy and policyConfigMap: give one of them" }}{{ end -}}
{{- if not (or .Values.policy .Values.policyConfigMap) }}{{ fail "policy: give its text (--set-file policy=policy.yaml), or policyConfigMap" }}{{ end -}}
{{ .Values.policyConfigMap | default (printf "%s-rules" .Release.Name) }}
{{- end }}

{{- define "holdpoint.pod" -}}
automountServiceAccountToken: false
{{- with .Values.imagePullSecrets }}
imagePullSecrets: {{ toJson . }}
{{- end }}
securityContext: {runAsNonRoot: true, runAsUser: 65532, runAsGroup: 65532, fsGroup: 65532, seccompProfile: {type: RuntimeDefault}}
{{- end }}

{{- define "holdpoint.container" -}}
image: {{ include "holdpoint.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
{{- end }}

{{- define "holdpoint.spread" -}}
terminationGracePeriodSeconds: 15
topologySpreadConstraints:
  - maxSkew: 1
    topologyKey: kubernetes.io/hostname
    whenUnsatisfiable: ScheduleAnyway
    labelSelector: {matchLabels: {app.kubernetes.io/instance: {{ .root.Release.Name }}, app.kubernetes.io/component: {{ .part }}}}
{{- end }}

{{- define "holdpoint.annotations" -}}
prometheus.io/scrape: "true"
prometheus.io/port: "9090"
# What a process reads once, at its start, has it start anew.
checksum/settings: {{ toYaml .Values.settings | sha256sum }}
{{- end }}

{{- define "holdpoint.env" -}}
- {name: HOLDPOINT_CONFIG, value: /etc/holdpoint/holdpoint.yaml}
- {name: HOLDPOINT_POLICY_FILE, value: /etc/holdpoint/rules/policy.yaml}
- {name: HOLDPOINT_METRICS_LISTEN, value: "0.0.0.0:9090"}
- {name: HOLDPOINT_DATABASE_URL_FILE, value: /run/secrets/holdpoint/database_url}
- {name: HOLDPOINT_DATA_KEY_FILE, value: /run/secrets/holdpoint/data_key}
- {name: HOLDPOINT_SIGNING_KEYS_FILE, value: /run/secrets/holdpoint/signing_keys}
{{- if .Values.kms.image }}
- {name: HOLDPOINT_KMS, value: "unix:///run/holdpoint-kms/kms.sock"}
{{- end }}
{{- end }}

# The plugin starts before the process and ends after it; only it writes to the socket's directory.
{{- define "holdpoint.kms" -}}
{{- with .Values.kms }}
{{- if .image }}
initContainers:
  - name: kms
    image: {{ .image | quote }}
    restartPolicy: Always
    {{- with .command }}
    command: {{ toJson . }}
    {{- end }}
    {{- with .args }}
    args: {{ toJson . }}
    {{- end }}
    {{- with .env }}
    env: {{ toJson . }}
    {{- end }}
    {{- with .startupProbe }}
    startupProbe: {{- toYaml . | nindent 6 }}
    {{- end }}
    securityContext: {allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {drop: [ALL]}}
    resources: {{- toYaml .resources | nindent 6 }}
    volumeMounts:
      - {name: kms-socket, mountPath: /run/holdpoint-kms}
      {{- with .volumeMounts }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- define "holdpoint.kms.mount" -}}
{{- if .Values.kms.image }}
- {name: kms-socket, mountPath: /run/holdpoint-kms, readOnly: true}
{{- end }}
{{- end }}

{{- define "holdpoint.kms.volumes" -}}
{{- if .Values.kms.image }}
- {name: kms-socket, emptyDir: {medium: Memory, sizeLimit: 1Mi}}
{{- with .Values.kms.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}
{{- end }}

{{- define "holdpoint.probes" -}}
startupProbe: {httpGet: {path: /healthz, port: {{ . }}}, periodSeconds: 2, failureThreshold: 30}
livenessProbe: {httpGet: {path: /healthz, port: {{ . }}}, periodSeconds: 10, timeoutSeconds: 5}
readinessProbe: {httpGet: {path: /readyz, port: {{ . }}}, periodSeconds: 5, timeoutSeconds: 4}
{{- end }}
