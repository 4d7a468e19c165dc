package kubernetes

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
