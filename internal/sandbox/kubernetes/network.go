package kubernetes

import (
	"context"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// policyName is the network policy for Pods without a network. It stands before
// they do, so that none of them is open for a moment.
const policyName = "toolroom-closed"

// policy lets nothing in and nothing out.
func policy() networkingv1.NetworkPolicySpec {
	return networkingv1.NetworkPolicySpec{
		PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{networkLabel: "closed"}},
		PolicyTypes: []networkingv1.PolicyType{networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress},
	}
}

// ensurePolicy makes the network policy where there is none. That it may not is
// no failure: a probe says what holds without it.
func (c *cluster) ensurePolicy(ctx context.Context) error {
	return called(ctx, func(ctx context.Context) error {
		var found networkingv1.NetworkPolicy
		err := c.policies.get(ctx, policyName, &found)
		if apierrors.IsNotFound(err) {
			err = c.policies.create(ctx, &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: policyName}, Spec: policy()}, &found)
		}
		switch {
		case apierrors.IsForbidden(err):
			c.policyLack = "this account may not make the NetworkPolicy " + policyName
			return nil
		case apierrors.IsAlreadyExists(err): // another Toolroom was faster
			return nil
		case err != nil:
			return err
		case !equality.Semantic.DeepEqual(found.Spec, policy()):
			c.policyLack = "somebody has changed the NetworkPolicy " + policyName
		}
		return nil
	})
}
