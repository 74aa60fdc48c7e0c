{{- define "stagedoor.name" -}}
{{- ternary .Release.Name (printf "%s-stagedoor" .Release.Name) (contains "stagedoor" .Release.Name) | trunc 46 | trimSuffix "-" -}}
{{- end -}}

{{/* Labels that select pods. Call it with (list $ ROLE); without a role it selects all nodes, but not the migrations. */}}
{{- define "stagedoor.selector" -}}
{{- $root := index . 0 -}}
{{- $component := "" -}}
{{- if gt (len .) 1 }}{{ $component = index . 1 }}{{ end -}}
app.kubernetes.io/name: {{ eq $component "migrate" | ternary "stagedoor-migrate" "stagedoor" }}
app.kubernetes.io/instance: {{ $root.Release.Name }}
{{- with $component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "stagedoor.labels" -}}
{{- $root := index . 0 -}}
{{ include "stagedoor.selector" . }}
app.kubernetes.io/managed-by: {{ $root.Release.Service }}
helm.sh/chart: {{ printf "%s-%s" $root.Chart.Name ($root.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "stagedoor.image" -}}
{{- $image := .Values.image -}}
{{- if $image.digest -}}
{{ $image.repository }}@{{ $image.digest }}
{{- else -}}
{{ $image.repository }}:{{ required "set image.tag or image.digest" $image.tag }}
{{- end -}}
{{- end -}}

{{/* What the pods of all roles and of the migrations have in common. */}}
{{- define "stagedoor.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 65532
  runAsGroup: 65532
  fsGroup: 65532
  seccompProfile: {type: RuntimeDefault}
{{- with .Values.imagePullSecrets }}
imagePullSecrets:
{{- range . }}
  - name: {{ . }}
{{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end -}}

{{- define "stagedoor.container" -}}
image: {{ include "stagedoor.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
{{- end -}}

{{/* Environment of secrets. Call it with (dict "keys" LIST "at" FOLDER). */}}
{{- define "stagedoor.secretEnv" -}}
{{- range .keys }}
- name: {{ . }}_FILE
  value: {{ $.at }}/{{ . }}
{{- end }}
{{- end -}}

{{/* A volume with some keys of a Secret. Call it with (dict "volume" NAME "name" SECRET "keys" LIST). The group of the
pod can read it, everyone else cannot. */}}
{{- define "stagedoor.secretVolume" -}}
- name: {{ .volume }}
  secret:
    secretName: {{ .name }}
    defaultMode: 0440
    items:
{{- range .keys }}
      - {key: {{ . }}, path: {{ . }}}
{{- end }}
{{- end -}}

{{/* Volumes of files. Call it with the list. */}}
{{- define "stagedoor.fileVolumes" -}}
{{- range . }}
- name: file-{{ .name }}
{{- if .secret }}
  secret: {secretName: {{ .secret }}, defaultMode: 0440}
{{- else if .configMap }}
  configMap: {name: {{ .configMap }}}
{{- else }}
  persistentVolumeClaim: {claimName: {{ .claim }}}
{{- end }}
{{- end }}
{{- end -}}

{{/* One target of a network policy. Call it with an entry of networkPolicy.egress. */}}
{{- define "stagedoor.egress" -}}
- to: {{- toYaml .to | nindent 4 }}
  ports:
{{- range .ports }}
    - {protocol: TCP, port: {{ . }}}
{{- end }}
{{- end -}}

{{- define "stagedoor.dns" -}}
- to: {{- toYaml .Values.networkPolicy.dns | nindent 4 }}
  ports:
    - {protocol: UDP, port: 53}
    - {protocol: TCP, port: 53}
{{- end -}}
