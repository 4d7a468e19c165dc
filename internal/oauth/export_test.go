package oauth

// Parameters reads a challenge.
var Parameters = parameters
