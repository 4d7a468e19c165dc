// Package isolation runs Toolroom on machines that lack kernel features for isolation, and
// checks how it reports that.
package isolation
