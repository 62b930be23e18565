{{- define "engramq.name" -}}
{{- if contains .Chart.Name .Release.Name }}{{ .Release.Name | trunc 40 | trimSuffix "-" }}{{ else }}{{ printf "%s-%s" .Release.Name .Chart.Name | trunc 40 | trimSuffix "-" }}{{ end }}
{{- end }}

{{/* Labels that tell the pods of one part; `part` is gateway, migrate, or worker and its entry. */}}
{{- define "engramq.selector" -}}
app.kubernetes.io/name: engramq
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "engramq.labels" -}}
{{ include "engramq.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end }}

{{- define "engramq.image" -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}
{{- end }}

{{- define "engramq.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{- define "engramq.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{/* Whose value may come from a file (docs/settings.md): NAME_FILE is where that is. */}}
{{- define "engramq.mayBeFile" -}}
{{- if has . (list "ENGRAMQ_DATABASE_URL" "ENGRAMQ_MIGRATE_DATABASE_URL" "ENGRAMQ_REDIS_URL" "ENGRAMQ_EMBEDDER_KEY" "ENGRAMQ_WEBHOOKS_KEY" "ENGRAMQ_METRICS_TOKEN") -}}
yes
{{- end }}
{{- end }}

{{/* The secrets of a role (gateway, worker, migrate) by their variables. What leads to PostgreSQL, to a model or to webhooks is
the workers' alone. */}}
{{- define "engramq.secrets" -}}
{{- $values := .root.Values }}
{{- $found := dict }}
{{- if eq .role "migrate" }}
{{- $_ := set $found "ENGRAMQ_DATABASE_URL" $values.database.ownerSecret }}
{{- else }}
{{- $ofWorkers := list "ENGRAMQ_MIGRATE_DATABASE_URL" "ENGRAMQ_EMBEDDER_KEY" "ENGRAMQ_WEBHOOKS_KEY" "OPENAI_API_KEY" }}
{{- range $variable, $from := $values.secretSettings }}
{{- if or (eq $.role "worker") (not (has $variable $ofWorkers)) }}
{{- $_ := set $found $variable $from }}
{{- end }}
{{- end }}
{{- $_ := set $found "ENGRAMQ_REDIS_URL" $values.redis.secret }}
{{- if eq .role "worker" }}{{ $_ := set $found "ENGRAMQ_DATABASE_URL" $values.database.secret }}{{ end }}
{{- if $values.metrics.enabled }}{{ $_ := set $found "ENGRAMQ_METRICS_TOKEN" $values.metrics.tokenSecret }}{{ end }}
{{- end }}
{{- toYaml $found }}
{{- end }}

{{/* Entries of `env`: the secrets of a role, and what the operator has added. `part` is the role's own values. */}}
{{- define "engramq.env" -}}
{{- $asFiles := .root.Values.secretsAsFiles }}
{{- range $variable, $from := fromYaml (include "engramq.secrets" .) }}
{{- if and $asFiles (include "engramq.mayBeFile" $variable) }}
- { name: {{ $variable }}_FILE, value: /run/secrets/engramq/{{ $variable }} }
{{- else }}
- name: {{ $variable }}
  valueFrom: { secretKeyRef: { name: {{ $from.name | quote }}, key: {{ $from.key | quote }} } }
{{- end }}
{{- end }}
{{- with concat .root.Values.extraEnv (default list .part.extraEnv) }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "engramq.mounts" -}}
- { name: tmp, mountPath: /tmp }
{{- if .root.Values.secretsAsFiles }}
- { name: secrets, mountPath: /run/secrets/engramq, readOnly: true }
{{- end }}
{{- if or .root.Values.certificates.secret .root.Values.certificates.configMap }}
- { name: certificates, mountPath: /etc/engramq/certificates, readOnly: true }
{{- end }}
{{- if and (eq .role "worker") .root.Values.home.volume }}
- { name: home, mountPath: {{ .root.Values.home.path | quote }} }
{{- end }}
{{- with concat .root.Values.extraVolumeMounts (default list .part.extraVolumeMounts) }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "engramq.volumes" -}}
{{- $values := .root.Values -}}
- { name: tmp, emptyDir: { sizeLimit: {{ .room }} } }
{{- if $values.secretsAsFiles }}
- name: secrets
  projected:
    defaultMode: 0440
    sources:
      {{- range $variable, $from := fromYaml (include "engramq.secrets" .) }}
      {{- if include "engramq.mayBeFile" $variable }}
      - secret: { name: {{ $from.name | quote }}, items: [{ key: {{ $from.key | quote }}, path: {{ $variable }} }] }
      {{- end }}
      {{- end }}
{{- end }}
{{- if or $values.certificates.secret $values.certificates.configMap }}
- name: certificates
  projected:
    defaultMode: 0440
    sources:
      {{- with $values.certificates.configMap }}
      - configMap: { name: {{ . | quote }} }
      {{- end }}
      {{- with $values.certificates.secret }}
      - secret: { name: {{ . | quote }} }
      {{- end }}
{{- end }}
{{- if and (eq .role "worker") $values.home.volume }}
- {{ merge (dict "name" "home") $values.home.volume | toYaml | nindent 2 | trim }}
{{- end }}
{{- with concat $values.extraVolumes (default list .part.extraVolumes) }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{/* Where pods of a part run, as `part`, its own values, says. */}}
{{- define "engramq.placing" -}}
topologySpreadConstraints:
  {{- $selector := dict "matchLabels" (fromYaml (include "engramq.selector" (dict "root" .root "part" .name))) }}
  {{- $usual := list (dict "maxSkew" 1 "topologyKey" "kubernetes.io/hostname" "whenUnsatisfiable" "ScheduleAnyway") }}
  {{- range default $usual .part.topologySpreadConstraints }}
  - {{ merge (deepCopy .) (dict "labelSelector" $selector) | toYaml | nindent 4 | trim }}
  {{- end }}
{{- with .part.priorityClassName }}
priorityClassName: {{ . | quote }}
{{- end }}
{{- with .part.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .part.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{/* How many pods of a part may be taken away at once. */}}
{{- define "engramq.budget" -}}
{{- $budget := default dict .part.podDisruptionBudget }}
{{- if ne (toString $budget.enabled) "false" }}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata:
  name: {{ include "engramq.name" .root }}-{{ .called }}
  labels: {{- include "engramq.labels" (dict "root" .root "part" .name) | nindent 4 }}
spec:
  maxUnavailable: {{ default 1 $budget.maxUnavailable }}
  unhealthyPodEvictionPolicy: AlwaysAllow
  selector:
    matchLabels: {{- include "engramq.selector" (dict "root" .root "part" .name) | nindent 6 }}
{{- end }}
{{- end }}

{{- define "engramq.account" -}}
{{- .Values.serviceAccount.name | default (ternary (include "engramq.name" .) "default" .Values.serviceAccount.create) }}
{{- end }}

{{/* A kind that nobody serves would let its commands wait for ever. */}}
{{- define "engramq.checkKinds" -}}
{{- $served := list }}
{{- range $name, $worker := .Values.workers }}{{ if $worker }}{{ $served = concat $served $worker.kinds }}{{ end }}{{ end }}
{{- range list "embedding" "sectors" "edges" "promotion" "recall" "imports" "upkeep" }}
{{- if not (has . $served) }}{{ fail (printf "workers: no entry serves the kind %s" .) }}{{ end }}
{{- end }}
{{- end }}

{{/* Entries of network policies. */}}
{{- define "engramq.scraped" -}}
{{- if .root.Values.metrics.enabled -}}
- from: {{- toYaml (default (list (dict "namespaceSelector" dict)) .root.Values.networkPolicy.metricsFrom) | nindent 4 }}
  ports: [{ port: {{ .port }}, protocol: TCP }]
{{- end }}
{{- end }}

{{- define "engramq.names" -}}
- ports: [{ port: 53, protocol: UDP }, { port: 53, protocol: TCP }]
{{- end }}

{{- define "engramq.redisEgress" -}}
- ports: [{ port: {{ .Values.networkPolicy.redisPort }}, protocol: TCP }]
  {{- with .Values.networkPolicy.redisTo }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "engramq.databaseEgress" -}}
- ports: [{ port: {{ .Values.networkPolicy.databasePort }}, protocol: TCP }]
  {{- with .Values.networkPolicy.databaseTo }}
  to: {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
