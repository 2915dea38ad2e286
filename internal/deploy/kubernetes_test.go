package deploy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// grace is what a run may need between SIGTERM and its end, in seconds:
// docs/kubernetes.md adds it up.
const grace = 120

// objects decodes documents into Kubernetes' own types. A field that the API does
// not have, or has twice, is an error.
func objects(t *testing.T, manifest string) []runtime.Object {
	t.Helper()
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var out []runtime.Object
	for _, doc := range strings.Split("\n"+manifest, "\n---\n") {
		if strings.TrimSpace(doc) == "" {
			continue
		}
		object, _, err := decoder.Decode([]byte(doc), nil, nil)
		require.NoError(t, err, doc)
		out = append(out, object)
	}

	return out
}

// of returns the objects of one type.
func of[T runtime.Object](objects []runtime.Object) []T {
	var out []T
	for _, o := range objects {
		if typed, ok := o.(T); ok {
			out = append(out, typed)
		}
	}

	return out
}

func TestKubernetesManifests(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, "configs/kubernetes/*.yaml"))
	require.NoError(t, err)
	var all []runtime.Object
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		all = append(all, objects(t, string(raw))...)
	}
	require.Len(t, of[*corev1.ServiceAccount](all), 1)
	require.Len(t, of[*batchv1.CronJob](all), 1)
	fitsTogether(t, all)
}

// A field that the API does not have is seen.
func TestUnknownFieldIsAnError(t *testing.T) {
	manifest := strings.Replace(read(t, "configs/kubernetes/cronjob.yaml"), "timeZone:", "timezone:", 1)
	decoder := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	_, _, err := decoder.Decode([]byte(manifest), nil, nil)
	require.ErrorContains(t, err, `unknown field "spec.timezone"`)
}

// fitsTogether checks every job among the objects, and that what it refers to is
// there.
func fitsTogether(t *testing.T, all []runtime.Object) {
	t.Helper()
	configs := map[string]string{}
	for _, c := range of[*corev1.ConfigMap](all) {
		configs[c.Name] = c.Data["compactor.yaml"]
	}
	for _, job := range of[*batchv1.CronJob](all) {
		checkSchedule(t, job)
		pod := job.Spec.JobTemplate.Spec.Template
		checkPod(t, pod.Spec)
		require.Contains(t, configs, pod.Spec.Volumes[0].ConfigMap.Name)
		understood(t, pod.Spec.Containers[0].Args, configs[pod.Spec.Volumes[0].ConfigMap.Name])
		for _, policy := range of[*networkingv1.NetworkPolicy](all) {
			for k, v := range policy.Spec.PodSelector.MatchLabels {
				require.Equal(t, v, pod.Labels[k], "the policy is for this pod")
			}
		}
	}
}

func checkSchedule(t *testing.T, job *batchv1.CronJob) {
	t.Helper()
	_, err := cron.ParseStandard(job.Spec.Schedule)
	require.NoError(t, err)
	require.NotNil(t, job.Spec.TimeZone)
	_, err = time.LoadLocation(*job.Spec.TimeZone)
	require.NoError(t, err)
	require.Equal(t, batchv1.ForbidConcurrent, job.Spec.ConcurrencyPolicy)
	require.Zero(t, *job.Spec.JobTemplate.Spec.BackoffLimit)
	require.LessOrEqual(t, len(job.Name), 52, "Kubernetes adds eleven characters to the name")
}

// checkPod checks what a pod is not allowed, its memory, and the time it is given
// to end.
func checkPod(t *testing.T, pod corev1.PodSpec) {
	t.Helper()
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.NotZero(t, *pod.SecurityContext.RunAsUser)
	require.Equal(t, corev1.SeccompProfileTypeRuntimeDefault, pod.SecurityContext.SeccompProfile.Type)
	require.False(t, *pod.AutomountServiceAccountToken)
	require.GreaterOrEqual(t, *pod.TerminationGracePeriodSeconds, int64(grace))
	require.Len(t, pod.Containers, 1)
	c := pod.Containers[0]
	require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
	require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
	require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
	require.GreaterOrEqual(t, c.Resources.Limits.Memory().Value(), int64(512<<20))
	for _, e := range c.Env {
		require.NotContains(t, e.Name, "SECRET", "secrets are referred to")
		require.NotEqual(t, "GOMEMLIMIT", e.Name, "the program sets it from the limit")
	}
}
