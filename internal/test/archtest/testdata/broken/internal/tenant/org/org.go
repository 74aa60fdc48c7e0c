// Package org breaks no rule.
package org

import "github.com/stagedoor/stagedoor/internal/base/contract"

var event = contract.Sent{}
