// Package isolation attacks the policy's rules about what programs do, and runs Toolroom on
// machines that lack kernel features for isolation and checks how it reports that.
package isolation
