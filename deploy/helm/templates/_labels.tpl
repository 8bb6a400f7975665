{{- define "eventsched.selector" -}}
app.kubernetes.io/name: eventsched
app.kubernetes.io/component: scheduler
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "eventsched.labels" -}}
{{ include "eventsched.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- /* What a container may do to its machine. */ -}}
{{- define "eventsched.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}
