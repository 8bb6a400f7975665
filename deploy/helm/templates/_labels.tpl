{{- define "eventsched.selector" -}}
app.kubernetes.io/name: eventsched
app.kubernetes.io/component: scheduler
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* The labels of the pods that archive. No selector of the scheduler's pods has them. */ -}}
{{- define "eventsched.archiveSelector" -}}
app.kubernetes.io/name: eventsched
app.kubernetes.io/component: archive
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- /* Labels of the release. */ -}}
{{- define "eventsched.release" -}}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end -}}

{{- define "eventsched.labels" -}}
{{ include "eventsched.selector" . }}
{{ include "eventsched.release" . }}
{{- end -}}

{{- /* What a container may do to its machine. */ -}}
{{- define "eventsched.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end -}}
