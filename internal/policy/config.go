package policy

// Config is the section "tools" of toolroom.yaml.
type Config struct {
	Rules `yaml:",inline"`
	// Agents, Providers and Identities restrict the rules above further, for callers with
	// these names.
	Agents     map[string]Rules `yaml:"agents,omitempty" json:"agents,omitempty"`
	Providers  map[string]Rules `yaml:"providers,omitempty" json:"providers,omitempty"`
	Identities map[string]Rules `yaml:"identities,omitempty" json:"identities,omitempty"`
	// Skills restrict callers to what their skill's manifest permits. A caller whose skill is
	// not listed, or has no permissions, may call nothing.
	Skills map[string]Skill `yaml:"skills,omitempty" json:"skills,omitempty"`
	// Sets restrict callers to the tools of their tool set. They come from the section "sets".
	// A caller whose set is not listed may call nothing.
	Sets map[string]Rules `yaml:"-" json:"sets,omitempty"`
	// Hooks ask or log before a call. The first whose pattern selects the tool applies.
	Hooks []Hook `yaml:"hooks,omitempty" json:"hooks,omitempty"`
	// Denylist is denied to every caller, whatever the other rules permit.
	Denylist []Denial `yaml:"immutable_denylist,omitempty" json:"immutable_denylist,omitempty"`
	// Sensitive tools need an elevation.
	Sensitive Sensitive `yaml:"sensitive,omitempty" json:"sensitive,omitzero"`
	// Profiles and Groups are additional named sets of patterns.
	Profiles map[string][]string `yaml:"profiles,omitempty" json:"profiles,omitempty"`
	Groups   map[string][]string `yaml:"groups,omitempty" json:"groups,omitempty"`
}

// Rules is one layer in toolroom.yaml.
type Rules struct {
	// Profile is the base of the layer: minimal, messaging, coding, full (the default) or one
	// of Config.Profiles.
	Profile string `yaml:"profile,omitempty" json:"profile,omitempty"`
	// Allow adds tools to the profile and Deny removes tools. Deny takes precedence.
	Allow []string `yaml:"allow,omitempty" json:"allow,omitempty"`
	Deny  []string `yaml:"deny,omitempty" json:"deny,omitempty"`
	// Confirm requires a person's approval before these tools run.
	Confirm []string `yaml:"confirm,omitempty" json:"confirm,omitempty"`
	// Autonomy is conservative, standard (the default) or autonomous. The most conservative of
	// the layers that apply is used.
	Autonomy Autonomy `yaml:"autonomy,omitempty" json:"autonomy,omitempty"`
}

// Hook is an action before calls of the tools that a pattern selects.
type Hook struct {
	Tool string `yaml:"tool,omitempty" json:"tool"`
	// Action is confirm, log or silent.
	Action Action `yaml:"action,omitempty" json:"action"`
}

// Denial is an entry of the immutable denylist.
type Denial struct {
	Tool string `yaml:"tool,omitempty" json:"tool"`
	// ArgsPattern is a regular expression (RE2). An empty one denies every call. It is matched
	// against the arguments as JSON and against every string in them, also with white space
	// collapsed and look-alike characters replaced.
	ArgsPattern string `yaml:"args_pattern,omitempty" json:"args_pattern,omitempty"`
	Reason      string `yaml:"reason,omitempty" json:"reason,omitempty"`
}

// Sensitive lists the tools that need an elevation, and what happens without one.
type Sensitive struct {
	Tools []string `yaml:"tools,omitempty" json:"tools,omitempty"`
	// Mode is deny_without_elevation (the default) or
	// confirm_without_elevation.
	Mode string `yaml:"mode,omitempty" json:"mode,omitempty"`
}

// The modes of sensitive tools.
const (
	DenyWithoutElevation    = "deny_without_elevation"
	ConfirmWithoutElevation = "confirm_without_elevation"
)

// Skill is a skill and its permissions: Permissions, or the member "permissions" of the file
// Manifest.
type Skill struct {
	Manifest    string       `yaml:"manifest,omitempty" json:"manifest,omitempty"`
	Permissions *Permissions `yaml:"permissions,omitempty" json:"permissions,omitempty"`
}

// Permissions is what a skill may do.
type Permissions struct {
	// Tools are patterns. If it is not nil, even if it is empty, ToolGroups is ignored.
	Tools      *[]string `yaml:"tools,omitempty" json:"tools,omitempty"`
	ToolGroups []string  `yaml:"tool_groups,omitempty" json:"tool_groups,omitempty"`
	// FS are globs of absolute paths. * matches within a folder, ** across folders.
	FS FSPermissions `yaml:"fs,omitempty" json:"fs,omitzero"`
	// Net are the hosts that the skill may reach.
	Net []NetPermission `yaml:"net,omitempty" json:"net,omitempty"`
	// Secrets are the scopes whose secrets its tools may receive.
	Secrets SecretPermissions `yaml:"secrets,omitempty" json:"secrets,omitzero"`
	// ExecutionEnvironment is the weakest isolation in which its tools may run.
	ExecutionEnvironment string `yaml:"execution_environment,omitempty" json:"execution_environment,omitempty"`
}

// FSPermissions are globs of paths.
type FSPermissions struct {
	Read  []string `yaml:"read,omitempty" json:"read,omitempty"`
	Write []string `yaml:"write,omitempty" json:"write,omitempty"`
}

// NetPermission is a host, which may contain *, and its ports. No ports means all.
type NetPermission struct {
	Host  string `yaml:"host,omitempty" json:"host"`
	Ports []int  `yaml:"ports,omitempty" json:"ports,omitempty"`
}

// SecretPermissions are scopes of secrets, which may contain *.
type SecretPermissions struct {
	Scopes []string `yaml:"scopes,omitempty" json:"scopes,omitempty"`
}
