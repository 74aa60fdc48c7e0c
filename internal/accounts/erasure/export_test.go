package erasure

import "github.com/stagedoor/stagedoor/internal/base/id"

// PageOrgs is how many organisations one query returns.
const PageOrgs = pageOrgs

// EachOrg calls do for each organisation of a list that is read page by page.
func EachOrg(page func(after id.Org) ([]id.Org, error), do func(owner id.Org) error) error {
	return eachOrg(page, do)
}
