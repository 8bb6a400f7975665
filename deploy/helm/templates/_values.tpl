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

{{- /* The plugins that values or profiles enable ("enabled") or disable, with commas between them. */ -}}
{{- define "eventsched.plugins" -}}
{{- $root := index . 0 -}}
{{- $list := index . 1 -}}
{{- $names := include "eventsched.names" (index $root.Values.plugins $list) | splitList "," -}}
{{- range $profile := $root.Values.profiles }}
{{- range $point, $set := ($profile.plugins | default dict) }}
{{- $names = concat $names (include "eventsched.names" (index $set $list) | splitList ",") -}}
{{- end }}
{{- end -}}
{{- join "," ($names | uniq | compact) -}}
{{- end -}}

{{- /* Values that mean nothing here, with commas between them. */ -}}
{{- define "eventsched.unused" -}}
{{- $known := dict
  "scheduler" (list "name" "image" "imagePullPolicy" "imagePullSecrets" "replicaCount" "leaderElect"
    "priorityClassName" "resources" "nodeSelector" "affinity" "tolerations" "topologySpreadConstraints"
    "strategy" "terminationGracePeriodSeconds" "probes" "podLabels" "podAnnotations" "extraEnv"
    "extraVolumes" "extraVolumeMounts")
  "plugins" (list "enabled" "disabled")
  "database" (list "secret" "urlKey" "migrationUrlKey" "port" "migration" "embedded" "cloudNativePG")
  "checkpoints" (list "secret")
  "archive" (list "enabled" "image" "existingClaim" "secret" "urlKey" "schedule" "resources"
    "nodeSelector" "tolerations" "extraEnv" "extraVolumes" "extraVolumeMounts")
  "networkPolicy" (list "egressPorts")
  "serviceAccount" (list "create" "name" "annotations")
  "rbac" (list "role")
  "extender" (list "enabled" "tlsSecret")
  "api" (list "enabled" "ui" "users")
  "monitoring" (list "serviceMonitor" "prometheusRule" "dashboard" "interval" "labels"
    "dashboardLabels" "databaseBytes") -}}
{{- $whole := list "pluginConfig" "profiles" "settings" "global" -}}
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

{{- /*
The parts of the configuration that need a restart.
*/ -}}
{{- define "eventsched.restart" -}}
{{- $resolved := include "eventsched.resolved" . | fromYaml -}}
{{- $settings := .Values.settings | default dict -}}
{{- $fixed := pick $settings "api" "client" "database" "serving" "stream" -}}
{{- if $resolved.api -}}
{{- $fixed = set $fixed "apiBeside" (pick .Values.api "enabled" "ui") -}}
{{- end -}}
{{- if $resolved.extender -}}
{{- $fixed = set $fixed "extender" (omit ($settings.extender | default dict) "profile") -}}
{{- end -}}
{{- list .Values.scheduler.leaderElect .Values.scheduler.name $resolved.embedded $fixed | toJson -}}
{{- end -}}

{{- /*
What follows from the values, as YAML. Sections and values that are missing have the defaults of
values.yaml: an upgrade with --reuse-values has only those of the old chart.
*/ -}}
{{- define "eventsched.resolved" -}}
{{- $embedded := .Values.database.embedded | default dict -}}
{{- $cnpg := .Values.database.cloudNativePG | default dict -}}
{{- $extender := .Values.extender | default dict -}}
{{- $account := .Values.serviceAccount | default dict -}}
{{- $archive := .Values.archive | default dict -}}
{{- if and $embedded.enabled $cnpg.enabled }}
{{- fail "database.embedded and database.cloudNativePG are both enabled: enable one of them" }}
{{- end }}
{{- if and $embedded.enabled (gt (int .Values.scheduler.replicaCount) 1) }}
{{- fail "database.embedded is for one replica: set scheduler.replicaCount to 1, or use another database" }}
{{- end }}
{{- if and .Values.profiles (or .Values.plugins.enabled .Values.plugins.disabled .Values.pluginConfig) }}
{{- fail "profiles replaces plugins and pluginConfig: set profiles, or the other two" }}
{{- end }}
{{- if and $archive.enabled $embedded.enabled }}
{{- fail "archive needs a database that its pod can reach: database.embedded is in the scheduler's pod" }}
{{- end }}
{{- if and $archive.enabled (not $archive.existingClaim) }}
{{- fail "archive.existingClaim is missing: name the PersistentVolumeClaim of the archive" }}
{{- end }}
{{- $settings := .Values.settings | default dict }}
{{- if and (.Values.api | default dict).enabled (dig "shadow" "enabled" false $settings) (ne (toString (dig "api" "authorization" "" $settings)) "off") }}
{{- fail "api needs reviews of the API server, and a shadow sends none: set settings.api.authorization to \"off\", or leave api.enabled out" }}
{{- end }}
account: {{ $account.name | default (ternary "default" .Release.Name (eq (toString $account.create) "false")) | quote }}
embedded: {{ $embedded.enabled | default false }}
cnpg: {{ $cnpg.enabled | default false }}
extender: {{ $extender.enabled | default false }}
api: {{ (.Values.api | default dict).enabled | default false }}
archive: {{ $archive.enabled | default false }}
checkpoints: {{ (.Values.checkpoints | default dict).secret | default "" | quote }}
extenderPort: {{ dig "extender" "port" 8888 (.Values.settings | default dict) | int }}
{{- $shadow := dig "shadow" "enabled" false (.Values.settings | default dict) }}
{{- $role := (.Values.rbac | default dict).role | default "kube-scheduler" }}
shadow: {{ $shadow }}
role: {{ ternary "shadow" $role (and $shadow (ne $role "none")) }}
{{- if $cnpg.enabled }}
secret: {{ printf "%s-postgres-app" .Release.Name | quote }}
urlKey: uri
migrationUrlKey: uri
migration: one-user
archiveSecret: {{ printf "%s-postgres-app" .Release.Name | quote }}
archiveUrlKey: uri
{{- else }}
archiveSecret: {{ $archive.secret | default "eventsched-archive" | quote }}
archiveUrlKey: {{ $archive.urlKey | default "url" | quote }}
secret: {{ .Values.database.secret | quote }}
urlKey: {{ .Values.database.urlKey | default "url" | quote }}
migrationUrlKey: {{ .Values.database.migrationUrlKey | default "migration-url" | quote }}
migration: {{ ternary "none" (.Values.database.migration | default "roles") (eq (toString $embedded.enabled) "true") }}
{{- end }}
{{- end -}}

{{- /* What the release does, in one line. */ -}}
{{- define "eventsched.purpose" -}}
{{- $names := list -}}
{{- range .Values.profiles }}{{ $names = append $names .schedulerName }}{{ end -}}
{{- if (include "eventsched.resolved" . | fromYaml).extender -}}
{{ .Release.Name }} in {{ .Release.Namespace }} answers other schedulers as their extender.
{{- else -}}
Pods with schedulerName {{ $names | default (list .Values.scheduler.name) | join " or " }} are scheduled by {{ .Release.Name }} in {{ .Release.Namespace }}.
{{- end -}}
{{- end -}}
