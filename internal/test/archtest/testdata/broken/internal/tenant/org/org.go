// Package org breaks no rule.
package org
