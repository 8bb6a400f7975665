{{- /* The name of a plugin in the values, which may be given with its weight. */ -}}
{{- define "eventsched.plugin" -}}
{{- if kindIs "map" . }}{{ .name }}{{ else }}{{ . }}{{ end -}}
{{- end -}}

{{- /* The names of a list of plugins, with commas between them. */ -}}
{{- define "eventsched.names" -}}
{{- $names := list -}}
{{- range . }}{{ $names = append $names (include "eventsched.plugin" .) }}{{ end -}}
{{- join "," $names -}}
{{- end -}}

{{- /* Values that mean nothing here, with commas between them. */ -}}
{{- define "eventsched.unused" -}}
{{- $known := dict
  "scheduler" (list "name" "image" "replicaCount" "leaderElect" "priorityClassName" "resources"
    "nodeSelector" "affinity" "tolerations")
  "plugins" (list "enabled" "disabled")
  "database" (list "secret" "port")
  "networkPolicy" (list "egressPorts")
  "monitoring" (list "serviceMonitor" "prometheusRule") -}}
{{- $whole := list "pluginConfig" "global" -}}
{{- $unused := list -}}
{{- range $section, $values := .Values }}
{{- if hasKey $known $section }}
{{- range $key, $_ := $values }}
{{- if not (has $key (get $known $section)) }}{{ $unused = append $unused (print $section "." $key) }}{{ end }}
{{- end }}
{{- else if and (kindIs "map" $values) (not (has $section $whole)) }}
{{- range $key, $_ := $values }}{{ $unused = append $unused (print $section "." $key) }}{{ end }}
{{- else if not (has $section $whole) }}
{{- $unused = append $unused $section }}
{{- end }}
{{- end -}}
{{- join "," (sortAlpha $unused) -}}
{{- end -}}
