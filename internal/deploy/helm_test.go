package deploy

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

const chart = root + "/configs/helm/compactor"

// values reads values as a person writes them.
func values(t *testing.T, text string) map[string]any {
	t.Helper()
	out := map[string]any{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &out))

	return out
}

// render is what "helm template" does.
func render(t *testing.T, release, text string) ([]runtime.Object, error) {
	t.Helper()
	loaded, err := loader.Load(chart)
	require.NoError(t, err)
	options := common.ReleaseOptions{Name: release, Namespace: "lake", IsInstall: true, Revision: 1}
	merged, err := util.ToRenderValues(loaded, values(t, text), options, common.DefaultCapabilities)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(loaded, merged)
	if err != nil {
		return nil, err
	}
	var all []runtime.Object
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if filepath.Ext(name) == ".yaml" {
			all = append(all, objects(t, files[name])...)
		}
	}

	return all, nil
}

func TestChartLints(t *testing.T) {
	for _, text := range []string{"{}", "existingSecret: ''", "networkPolicy: {enabled: false}"} {
		result := lint.RunAll(chart, values(t, text), "lake")
		require.Empty(t, result.Messages)
	}
}

func TestChartWithItsOwnValues(t *testing.T) {
	all, err := render(t, "compactor", "{}")
	require.NoError(t, err)
	fitsTogether(t, all)
	jobs := of[*batchv1.CronJob](all)
	require.Len(t, jobs, 1)
	require.Equal(t, "compactor-nightly", jobs[0].Name)
	c := jobs[0].Spec.JobTemplate.Spec.Template.Spec.Containers[0]
	require.Equal(t, "ghcr.io/OWNER/compactor:0.1.0", c.Image)
	require.Equal(t, "compactor", c.EnvFrom[0].SecretRef.Name)
	require.Len(t, of[*networkingv1.NetworkPolicy](all), 1)
}

// Each entry is a job; what it says replaces the defaults, for it alone.
func TestChartWithTwoJobs(t *testing.T) {
	all, err := render(t, "lake", `
image: {digest: "sha256:`+strings.Repeat("ab", 32)+`"}
existingSecret: ""
serviceAccount: {create: false, name: maintenance}
networkPolicy: {enabled: false}
config:
  defaults: {compact: {target_file_size: 64MiB, when_small_files: 12000000}}
jobs:
  - {name: hourly, schedule: "@hourly", args: [compact, "stream.*"], resources: {limits: {memory: 4Gi}}, timeZone: Europe/Berlin}
  - {name: weekly, schedule: "0 3 * * 0", args: [orphans, --all], suspend: true}
`)
	require.NoError(t, err)
	fitsTogether(t, all)
	require.Empty(t, of[*corev1.ServiceAccount](all))
	require.Empty(t, of[*networkingv1.NetworkPolicy](all))
	require.Contains(t, of[*corev1.ConfigMap](all)[0].Data["compactor.yaml"], "target_file_size: 64MiB")
	require.Contains(t, of[*corev1.ConfigMap](all)[0].Data["compactor.yaml"], "when_small_files: 12000000", "large numbers stay as they are written")
	jobs := of[*batchv1.CronJob](all)
	require.Len(t, jobs, 2)
	require.Equal(t, []string{"lake-compactor-hourly", "lake-compactor-weekly"}, []string{jobs[0].Name, jobs[1].Name})
	require.Equal(t, []string{"Europe/Berlin", "Etc/UTC"}, []string{*jobs[0].Spec.TimeZone, *jobs[1].Spec.TimeZone})
	require.Equal(t, []bool{false, true}, []bool{*jobs[0].Spec.Suspend, *jobs[1].Spec.Suspend})
	for i, memory := range []string{"4Gi", "2Gi"} {
		pod := jobs[i].Spec.JobTemplate.Spec.Template.Spec
		require.Equal(t, "maintenance", pod.ServiceAccountName)
		require.Equal(t, memory, pod.Containers[0].Resources.Limits.Memory().String())
		require.Empty(t, pod.Containers[0].EnvFrom)
		require.Contains(t, pod.Containers[0].Image, "@sha256:abab")
	}
}

func TestChartRefusesWrongValues(t *testing.T) {
	for text, names := range map[string]string{
		"jobs: []": "jobs",
		"jobs: [{name: a, schedule: never, args: [run]}]":                                       "schedule",
		"jobs: [{name: A_b, schedule: '@daily', args: [run]}]":                                  "name",
		"jobs: [{name: a, schedule: '@daily', arg: [run]}]":                                     "arg",
		"jobs: [{name: a, schedule: '@daily', args: [run], terminationGracePeriodSeconds: 30}]": "terminationGracePeriodSeconds",
		"image: {digest: latest}":                                                               "digest",
		"existingsecret: compactor":                                                             "existingsecret",
	} {
		_, err := render(t, "compactor", text)
		require.ErrorContains(t, err, names, text)
	}
}

// Kubernetes takes no longer name for a CronJob.
func TestChartRefusesALongName(t *testing.T) {
	const job = "jobs: [{name: nightly-rewrite, schedule: '@daily', args: [run, --all]}]"
	all, err := render(t, strings.Repeat("r", 26), job)
	require.NoError(t, err)
	require.Len(t, of[*batchv1.CronJob](all)[0].Name, 52)
	_, err = render(t, strings.Repeat("r", 27), job)
	require.ErrorContains(t, err, "more than 52 characters")
}

// Two jobs of one name would be one.
func TestChartRefusesTheSameNameTwice(t *testing.T) {
	_, err := render(t, "compactor", "jobs: [{name: a, schedule: '@daily', args: [run, --all]}, {name: a, schedule: '@hourly', args: [run, x.y]}]")
	require.ErrorContains(t, err, "twice")
}
