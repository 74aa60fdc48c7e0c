package manifest

import "encoding/json"

// Document is a manifest that has the right form.
type Document struct {
	Revision  string
	Upstream  Upstream
	Session   Session
	SignIn    SignIn
	Errors    Errors
	Pages     map[string]Page
	Socket    *Socket
	Files     *Files
	Types     []Type
	Events    []Event
	Resources []Resource
}

// Upstream says which platform it is.
type Upstream struct {
	ID, Name, Version, Origin, Base, Isolation, Verify string
	ListSince, PassUnknown                             bool
}

// Session is what a session is made of.
type Session struct {
	Cookies struct {
		Required, Kept, Rotates []string
		Owner, Expiry           string
	}
	Headers   struct{ Required, Allowed []string }
	Device    string
	Send      map[string]string
	UserAgent string
}

// Step is one request of signing in. A text that begins with $ stands for a value of the step.
type Step struct {
	HTTP string `json:"http"`
	Body json.RawMessage
	Send map[string]string
}

// SignIn is how one signs in.
type SignIn struct {
	Credentials                         Step
	Code, Resend, Switch, Check, Logout *Step
	QR                                  *struct {
		Step
		ID, Secret, URL, Expires, Ends string
	} `json:"qr"`
	QRCheck *struct {
		Step
		Status   string
		Statuses map[string]string
	} `json:"qrCheck"`
	Challenge struct {
		At, Token, Channel                          string
		Channels                                    map[string]string
		Available, Mask, Expires, Page, Sent, State string
	}
	Failures []struct {
		Code    int
		Failure string
	}
}

// Errors is what refusals mean.
type Errors struct {
	Code, Message, RetryAfter string
	Kinds                     []struct {
		Code, Status Numbers
		Kind         string
	}
}

// Numbers is one number or several.
type Numbers []int

// UnmarshalJSON takes both.
func (n *Numbers) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '[' {
		return json.Unmarshal(text, (*[]int)(n))
	}
	*n = Numbers{0}
	return json.Unmarshal(text, &(*n)[0])
}

// Page is one way of paging.
type Page struct {
	Items, More, Next, NextOfLast, Cursor, Limit string
	Usual                                        bool
}

// Socket is where live frames come from.
type Socket struct {
	Path  string
	Frame struct{ ID, Name, At, Body string }
	Time  string
	Ping  string
	Since *struct {
		HTTP                                       string `json:"http"`
		Cursor, Limit, Items, More, Complete, Last string
	}
	Ended []int
}

// Files is where files are, and which methods hand out their addresses.
type Files struct {
	At       []string
	Cookies  bool
	Download *struct{ Method, ID, Quality, URL string }
	Upload   *struct {
		Begin  struct{ Method, Name, Size, Type, SHA256, ID, PartSize string }
		Part   struct{ Method, ID, Number, URL, Headers string }
		Finish struct{ Method, ID, Parts, Number, ETag string }
	}
}

// Type is a shape of answers.
type Type struct {
	Pos
	Name   string
	Fields []*Field
}

// Field is one member of a shape, or an item of a list.
type Field struct {
	Pos
	Name     string
	Nullable bool
	// From is nil if the name decides.
	From *string
	// Type, As, Of, Items, Fields, Const and Values say what it is.
	Type, As, Of string
	Items        *Field
	Fields       []*Field
	Const        json.RawMessage
	Values       []Pair
	Default      json.RawMessage

	Format, Role, Description string
}

// Pair is one value of an enumeration: ours, and theirs as JSON.
type Pair struct {
	Ours   string
	Theirs json.RawMessage
}

// Event is one kind of event.
type Event struct {
	Pos
	Kind, Summary, Class string
	// EverySec is how far apart ephemeral ones are told at least; 0 if the kind does not say.
	EverySec int
	Frames   []string
	When     []Condition
	// Of is a type that is the whole of the data; otherwise there are fields.
	Of   string
	Data []*Field
}

// Condition is what a frame must hold.
type Condition struct {
	Path string
	Want json.RawMessage
}

// Resource is a group of methods.
type Resource struct {
	Pos
	Name, Summary string
	Methods       []*Method
}

// Method is one call.
type Method struct {
	Pos
	Name, Summary, Access, HTTP                               string
	Safe, Idempotent, Destructive, Async, Sensitive, Outbound bool
	Args                                                      []*Property
	Send                                                      []Constant
	Result                                                    Result
	Emits                                                     []string
	TimeoutMs, Cost                                           int
	Since, Deprecated                                         string
	// Example is nil if there is none.
	Example json.RawMessage
}

// Constant goes with every call.
type Constant struct {
	Pos
	To    string
	Value json.RawMessage
}

// Result is what an answer becomes; one of Of, Page and Fields is set.
type Result struct {
	Pos
	Of, Page, Style string
	From            *string
	Fields          []*Field
}

// Property is one argument, a member of one, or an item.
type Property struct {
	Pos
	Name     string
	Required bool
	// ID means an identifier of the platform's.
	ID                    bool
	Type, Format, Pattern string
	Description           string
	Enum                  []json.RawMessage
	Default               json.RawMessage
	MinLength, MaxLength  *int
	Minimum, Maximum      *int64
	MinItems, MaxItems    *int
	UniqueItems           bool
	Items                 *Property
	Properties            []*Property
	To, As                string
	Values                []Pair
}
