package kubernetes

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"path"
	"regexp"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/toolroom/toolroom/drivers/image"
	"github.com/toolroom/toolroom/internal/guest"
	"github.com/toolroom/toolroom/internal/proc"
	"github.com/toolroom/toolroom/sandbox"
)

// Labels in addition to those of package proc.
const (
	instanceLabel = "toolroom.box"     // the name of the sandbox
	networkLabel  = "toolroom.network" // closed, for the network policy
)

const (
	container   = "guest"
	workFolder  = "/work"
	guestFolder = "/toolroom" // the folder of a guest that is not in the image
	searchPath  = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	nobody      = 65534
	// terminationPath is the path of a file on the node that every container could write
	// to. Here the program cannot reach it, because only root may enter that folder.
	terminationPath = "/root/.termination"
)

// Defaults of a Pod without limits.
const (
	defaultDisk = 64 << 20
	// defaultMemory is reserved on the node; it is not a limit.
	defaultMemory = 128 << 20
	// defaultLife is the maximum lifetime of a Pod without a wall time. A Pod with a wall
	// time lives at most slack longer, so that it can start and wait for its program.
	defaultLife = time.Hour
	slack       = 15 * time.Minute
	// scratch limits the disk space on the node of a Pod with a read-only root, which can
	// write little there.
	scratch = 64 << 20
)

// podFor returns the Pod for a guest.
func podFor(s sandbox.Spec, o Options, id string) *corev1.Pod {
	labels := labelsFor(s.Run, id)
	if s.Profile != sandbox.Dev {
		labels[networkLabel] = "closed"
	}
	life := defaultLife
	if s.Limits.Wall > 0 {
		life = s.Limits.Wall + slack
	}
	spec := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyNever,
		ActiveDeadlineSeconds:         new(int64(life / time.Second)),
		TerminationGracePeriodSeconds: new(int64(1)),
		AutomountServiceAccountToken:  new(false),
		EnableServiceLinks:            new(false),
		Hostname:                      "toolroom",
		NodeSelector:                  o.NodeSelector,
		OS:                            &corev1.PodOS{Name: corev1.Linux},
		DNSPolicy:                     corev1.DNSClusterFirst,
		SecurityContext: &corev1.PodSecurityContext{
			RunAsNonRoot: new(true), RunAsUser: new(int64(nobody)), RunAsGroup: new(int64(nobody)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
		},
		Containers: []corev1.Container{containerFor(s, o)},
		Volumes:    volumes(s.Limits.Disk),
	}
	if runtime := cmp.Or(s.Runtime, o.RuntimeClass); runtime != "" {
		spec.RuntimeClassName = &runtime
	}
	if s.Profile == sandbox.Dev {
		spec.SecurityContext = &corev1.PodSecurityContext{RunAsUser: new(int64(0)), SeccompProfile: spec.SecurityContext.SeccompProfile}
	} else {
		hideFolders(&spec)
		// The program has no business looking up names in the cluster.
		spec.DNSPolicy, spec.DNSConfig = corev1.DNSNone, &corev1.PodDNSConfig{Nameservers: []string{"127.0.0.1"}}
	}
	if o.GuestImage != "" {
		spec.InitContainers = []corev1.Container{injector(o)}
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "toolroom", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: quantity(scratch)}}})
	}
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: id, Labels: labels}, Spec: spec}
}

func containerFor(s sandbox.Spec, o Options) corev1.Container {
	c := corev1.Container{
		Name: container, Image: cmp.Or(s.Image, o.Image), ImagePullPolicy: pullPolicy(o),
		Command:                []string{guestPath(o), guest.PodArg},
		WorkingDir:             workFolder,
		Env:                    environment(s),
		Resources:              resources(s),
		TerminationMessagePath: terminationPath,
		VolumeMounts:           []corev1.VolumeMount{{Name: "work", MountPath: workFolder}, {Name: "shm", MountPath: "/dev/shm"}},
		SecurityContext:        containerSecurity(),
	}
	if o.GuestImage != "" {
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: "toolroom", MountPath: guestFolder, ReadOnly: true})
	}
	if s.Profile == sandbox.Dev {
		// Development includes installing packages, which needs root and these capabilities.
		c.SecurityContext.ReadOnlyRootFilesystem = new(false)
		c.SecurityContext.Capabilities.Add = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER", "SETUID", "SETGID"}
	}
	return c
}

// hiddenFolders are the folders that a program does not see: terminals and the tree of cgroups. A
// Pod cannot mask paths, but a volume can lie over them. Below /proc no volume can.
var hiddenFolders = []string{"/dev/pts", "/sys/fs/cgroup"}

// hideFolders puts an empty folder over what a program must not see.
func hideFolders(spec *corev1.PodSpec) {
	spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "nothing", VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: quantity(4096)},
	}})
	mounts := &spec.Containers[0].VolumeMounts
	for _, path := range hiddenFolders {
		*mounts = append(*mounts, corev1.VolumeMount{Name: "nothing", MountPath: path, ReadOnly: true})
	}
}

func containerSecurity() *corev1.SecurityContext {
	return &corev1.SecurityContext{
		AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}},
	}
}

// injector copies the guest into the container's guest folder.
func injector(o Options) corev1.Container {
	small := corev1.ResourceList{corev1.ResourceMemory: *quantity(scratch), corev1.ResourceCPU: *resource.NewMilliQuantity(100, resource.DecimalSI)}
	return corev1.Container{
		Name: "toolroom", Image: o.GuestImage, ImagePullPolicy: pullPolicy(o),
		Command:         []string{"/bin/cp", image.GuestPath, guestPath(o)},
		VolumeMounts:    []corev1.VolumeMount{{Name: "toolroom", MountPath: guestFolder}},
		Resources:       corev1.ResourceRequirements{Limits: small, Requests: small},
		SecurityContext: containerSecurity(),
	}
}

// volumes returns the in-memory folders. Both are writable, so they share the disk
// limit.
func volumes(disk int64) []corev1.Volume {
	if disk == 0 {
		disk = defaultDisk
	}
	memory := func(name string, size int64) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: quantity(size)},
		}}
	}
	return []corev1.Volume{memory("work", disk-disk/8), memory("shm", disk/8)}
}

func environment(s sandbox.Spec) []corev1.EnvVar {
	env := []corev1.EnvVar{
		{Name: "PATH", Value: searchPath},
		{Name: "HOME", Value: workFolder},
		{Name: "LANG", Value: "C.UTF-8"},
		{Name: guest.WorkEnv, Value: workFolder},
		// A node notices after minutes that the machine of its client is gone.
		{Name: guest.AliveEnv, Value: "1"},
	}
	switch s.Profile {
	case sandbox.Dev:
	case sandbox.Hardened:
		env = append(env, corev1.EnvVar{Name: guest.SeccompEnv, Value: "hardened"})
	default:
		env = append(env, corev1.EnvVar{Name: guest.SeccompEnv, Value: "standard"})
	}
	if s.Limits.CPU > 0 {
		env = append(env, corev1.EnvVar{Name: guest.RlimitEnv, Value: "cpu"})
	}
	for _, entry := range s.Env {
		name, value, _ := strings.Cut(entry, "=")
		// The kubelet would replace $(NAME) by other variables.
		env = append(env, corev1.EnvVar{Name: name, Value: strings.ReplaceAll(value, "$", "$$")})
	}
	return env
}

// resources requests as much memory as its limit, because a node cannot take memory
// back; processors are shared.
func resources(s sandbox.Spec) corev1.ResourceRequirements {
	limits := corev1.ResourceList{corev1.ResourceEphemeralStorage: *quantity(scratch)}
	requests := corev1.ResourceList{
		corev1.ResourceCPU: *resource.NewMilliQuantity(100, resource.DecimalSI), corev1.ResourceMemory: *quantity(defaultMemory),
	}
	if s.Profile == sandbox.Dev {
		delete(limits, corev1.ResourceEphemeralStorage)
		if s.Limits.Disk > 0 {
			limits[corev1.ResourceEphemeralStorage] = *quantity(s.Limits.Disk)
		}
	}
	if s.Limits.Memory > 0 {
		limits[corev1.ResourceMemory], requests[corev1.ResourceMemory] = *quantity(s.Limits.Memory), *quantity(s.Limits.Memory)
	}
	if cpus := s.Limits.CPUs; cpus > 0 {
		milli := max(int64(cpus*1000), 1)
		limits[corev1.ResourceCPU] = *resource.NewMilliQuantity(milli, resource.DecimalSI)
		requests[corev1.ResourceCPU] = *resource.NewMilliQuantity(min(milli, 100), resource.DecimalSI)
	}
	return corev1.ResourceRequirements{Limits: limits, Requests: requests}
}

// guestCommand returns the command of the guest in its Pod.
func guestCommand(s sandbox.Spec, o Options) []string {
	return append([]string{guestPath(o)}, s.Args...)
}

func guestPath(o Options) string {
	if o.GuestImage != "" {
		return path.Join(guestFolder, path.Base(image.GuestPath))
	}
	return image.GuestPath
}

func pullPolicy(o Options) corev1.PullPolicy {
	if o.Pull == pullMissing {
		return corev1.PullIfNotPresent
	}
	return corev1.PullNever
}

// notInLabels matches characters that are not allowed in the values of labels.
var notInLabels = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// labelsFor returns the labels of a run, restricted to the characters that Kubernetes
// allows.
func labelsFor(run, id string) map[string]string {
	labels := maps.Clone(proc.Labels(run))
	labels[instanceLabel] = id
	for name, value := range labels {
		value = notInLabels.ReplaceAllString(value, "-")
		labels[name] = strings.Trim(value[:min(len(value), 63)], "._-")
	}
	return labels
}

func quantity(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }

// describe names the Pod in an error message.
func describe(p *corev1.Pod) string {
	if p.Spec.NodeName == "" {
		return fmt.Sprintf("the Pod %s", p.Name)
	}
	return fmt.Sprintf("the Pod %s on the node %s", p.Name, p.Spec.NodeName)
}

// policyName is the name of the network policy for Pods without a network. The policy
// is made before the first Pod, so that none has a network even for a moment.
const policyName = "toolroom-closed"

// policy forbids all connections, in both directions.
func policy() networkingv1.NetworkPolicySpec {
	return networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{networkLabel: "closed"}},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
	}
}

// ensurePolicy makes the network policy if it does not exist. A missing permission is
// not an error: the probe reports what is enforced without the policy.
func (c *cluster) ensurePolicy(ctx context.Context) error {
	return withCallTimeout(ctx, func(ctx context.Context) error {
		var found networkingv1.NetworkPolicy
		err := c.policies.get(ctx, policyName, &found)
		if apierrors.IsNotFound(err) {
			err = c.policies.create(ctx, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: policyName}, Spec: policy()}, &found)
		}
		switch {
		case apierrors.IsForbidden(err):
			c.policyLack = "this account may not make the NetworkPolicy " + policyName
			return nil
		case apierrors.IsAlreadyExists(err): // another process was faster
			return nil
		case err != nil:
			return err
		case !equality.Semantic.DeepEqual(found.Spec, policy()):
			c.policyLack = "the NetworkPolicy " + policyName + " has been changed"
		}
		return nil
	})
}
