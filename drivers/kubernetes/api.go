package kubernetes

import (
	"context"
	"errors"
	"net/http"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// api is the part of the Kubernetes API that the driver uses. client-go's own
// Clientset contains every API group, and each start of this program would pay for the
// types of all.
type api struct {
	pods, events, jobs, policies kind
}

// kind gives access to the objects of one type in one namespace.
type kind struct {
	client    rest.Interface
	params    runtime.ParameterCodec
	namespace string
	plural    string
}

// newAPI makes the clients of the groups in use. It does not contact the server.
func newAPI(config *rest.Config, namespace string) (*api, error) {
	types := runtime.NewScheme()
	if err := errors.Join(corev1.AddToScheme(types), batchv1.AddToScheme(types), networkingv1.AddToScheme(types)); err != nil {
		return nil, err
	}
	shared := *config
	shared.NegotiatedSerializer = serializer.NewCodecFactory(types).WithoutConversion()
	shared.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(config.QPS, config.Burst)
	connections, err := rest.HTTPClientFor(&shared)
	if err != nil {
		return nil, err
	}
	core, coreErr := group(shared, connections, "/api", corev1.SchemeGroupVersion)
	batch, batchErr := group(shared, connections, "/apis", batchv1.SchemeGroupVersion)
	networking, networkingErr := group(shared, connections, "/apis", networkingv1.SchemeGroupVersion)
	if err := errors.Join(coreErr, batchErr, networkingErr); err != nil {
		return nil, err
	}
	params := runtime.NewParameterCodec(types)
	return &api{
		pods:     kind{core, params, namespace, "pods"},
		events:   kind{core, params, namespace, "events"},
		jobs:     kind{batch, params, namespace, "jobs"},
		policies: kind{networking, params, namespace, "networkpolicies"},
	}, nil
}

func group(config rest.Config, connections *http.Client, path string, version schema.GroupVersion) (*rest.RESTClient, error) {
	config.APIPath, config.GroupVersion = path, &version
	return rest.RESTClientForConfigAndClient(&config, connections)
}

// create makes an object and stores the server's version of it in made.
func (k kind) create(ctx context.Context, object, made runtime.Object) error {
	return k.client.Post().Namespace(k.namespace).Resource(k.plural).Body(object).Do(ctx).Into(made)
}

func (k kind) get(ctx context.Context, name string, found runtime.Object) error {
	return k.client.Get().Namespace(k.namespace).Resource(k.plural).Name(name).Do(ctx).Into(found)
}

func (k kind) list(ctx context.Context, which metav1.ListOptions, found runtime.Object) error {
	return k.client.Get().Namespace(k.namespace).Resource(k.plural).VersionedParams(&which, k.params).Do(ctx).Into(found)
}

func (k kind) watch(ctx context.Context, which metav1.ListOptions) (watch.Interface, error) {
	which.Watch = true
	return k.client.Get().Namespace(k.namespace).Resource(k.plural).VersionedParams(&which, k.params).Watch(ctx)
}

// delete removes an object at once, and a Job together with its Pod.
func (k kind) delete(ctx context.Context, name string) error {
	grace, how := int64(1), metav1.DeletePropagationForeground
	return k.client.Delete().Namespace(k.namespace).Resource(k.plural).Name(name).
		Body(&metav1.DeleteOptions{GracePeriodSeconds: &grace, PropagationPolicy: &how}).Do(ctx).Error()
}

// part returns a request for a subresource of an object, such as its log.
func (k kind) part(verb, name, part string, options runtime.Object) *rest.Request {
	return k.client.Verb(verb).Namespace(k.namespace).Resource(k.plural).Name(name).SubResource(part).VersionedParams(options, k.params)
}
