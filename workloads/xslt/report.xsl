<?xml version="1.0"?>
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
  <xsl:output method="html" indent="yes"/>
  <xsl:key name="by-id" match="part" use="@id"/>
  <xsl:key name="users" match="part" use="use/@part"/>
  <xsl:template match="/catalogue">
    <html><body>
      <p><xsl:value-of select="count(group/part)"/> parts,
        <xsl:value-of select="round(sum(group/part/@price))"/> in all</p>
      <xsl:apply-templates select="group"/>
    </body></html>
  </xsl:template>
  <xsl:template match="group">
    <h2><xsl:value-of select="@name"/></h2>
    <table>
      <xsl:for-each select="part">
        <xsl:sort select="@price" data-type="number" order="descending"/>
        <xsl:sort select="name"/>
        <tr>
          <td><xsl:value-of select="translate(name, 'abcdef', 'ABCDEF')"/></td>
          <td><xsl:value-of select="@price"/></td>
          <td>
            <xsl:for-each select="use">
              <xsl:value-of select="concat(@count, ' x ', key('by-id', @part)/name)"/>
              <xsl:if test="position() != last()">, </xsl:if>
            </xsl:for-each>
          </td>
          <td><xsl:value-of select="count(key('users', @id))"/></td>
        </tr>
      </xsl:for-each>
    </table>
  </xsl:template>
</xsl:stylesheet>
