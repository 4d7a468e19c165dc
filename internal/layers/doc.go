// Package layers tests which package may import which. A package imports only packages
// of lower layers, and heavy modules stay out of packages that every program links.
package layers
