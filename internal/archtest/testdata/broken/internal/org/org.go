// Package org is too curious.
package org

import _ "github.com/stagedoor/stagedoor/internal/apikey"
